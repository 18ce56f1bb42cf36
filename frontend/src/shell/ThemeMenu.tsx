import { ActionIcon, Menu, Tooltip } from '@mantine/core';
import { IconCheck, IconDeviceDesktop, IconMoon, IconSun } from '@tabler/icons-react';

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
        <Tooltip label="Theme">
          <ActionIcon aria-label="Theme">
            <Current size={18} stroke={1.6} />
          </ActionIcon>
        </Tooltip>
      </Menu.Target>
      <Menu.Dropdown>
        {CHOICES.map(({ value, label, Icon }) => (
          <Menu.Item
            key={value}
            role="menuitemradio"
            aria-checked={value === choice}
            leftSection={<Icon size={16} stroke={1.6} />}
            rightSection={value === choice ? <IconCheck size={14} aria-hidden /> : null}
            onClick={() => choose(value)}
          >
            {label}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
