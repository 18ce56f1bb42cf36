import { ActionIcon, Menu } from '@mantine/core';
import { IconDeviceDesktop, IconMoon, IconSun } from '@tabler/icons-react';

import type { ThemeChoice } from '../api/types';
import { useThemeChoice } from './useTheme';

const CHOICES: { value: ThemeChoice; label: string; Icon: typeof IconSun }[] = [
  { value: 'system', label: 'Follow the system', Icon: IconDeviceDesktop },
  { value: 'light', label: 'Light', Icon: IconSun },
  { value: 'dark', label: 'Dark', Icon: IconMoon },
];

export function ThemeMenu() {
  const { choice, choose } = useThemeChoice();
  const Current = CHOICES.find(({ value }) => value === choice)?.Icon ?? IconDeviceDesktop;
  return (
    <Menu position="bottom-end" shadow="md" width={190}>
      <Menu.Target>
        <ActionIcon aria-label="Theme" title="Theme">
          <Current size={18} stroke={1.6} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.RadioGroup value={choice} onChange={(value) => choose(value as ThemeChoice)}>
          {CHOICES.map(({ value, label, Icon }) => (
            <Menu.RadioItem
              key={value}
              value={value}
              closeMenuOnClick
              rightSection={<Icon size={16} stroke={1.6} aria-hidden />}
            >
              {label}
            </Menu.RadioItem>
          ))}
        </Menu.RadioGroup>
      </Menu.Dropdown>
    </Menu>
  );
}
