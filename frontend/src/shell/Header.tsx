import { ActionIcon, Menu, Tooltip, UnstyledButton } from '@mantine/core';
import { IconChevronDown, IconKeyboard, IconLogout } from '@tabler/icons-react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';

import { ANONYMOUS, logOut, sessionQuery } from '../api/session';
import { notifyError } from '../components/notify';
import { AlertBell } from '../features/alerts/AlertBell';
import classes from './Header.module.css';
import { LivePill } from './LivePill';
import { Logo } from './Logo';
import { ThemeMenu } from './ThemeMenu';

export function Header({ onShortcuts }: { onShortcuts: () => void }) {
  return (
    <header className={classes.header}>
      <Link to="/" className={classes.brand}>
        <Logo size={22} />
        <span>KVCM Platform</span>
      </Link>
      <div className={classes.tools}>
        <LivePill />
        <AlertBell />
        <Tooltip label="Keyboard shortcuts (?)">
          <ActionIcon aria-label="Keyboard shortcuts" onClick={onShortcuts} className={classes.wideOnly}>
            <IconKeyboard size={18} stroke={1.6} />
          </ActionIcon>
        </Tooltip>
        <ThemeMenu />
        <AccountMenu />
      </div>
    </header>
  );
}

function AccountMenu() {
  const { data: session } = useQuery(sessionQuery);
  const client = useQueryClient();
  const navigate = useNavigate();
  const leave = useMutation({
    mutationFn: logOut,
    onSuccess: async () => {
      client.clear();
      client.setQueryData(sessionQuery.queryKey, ANONYMOUS);
      await navigate({ to: '/login' });
    },
    onError: (error) => notifyError('Signing out failed', error),
  });
  const name = session?.username ?? '';
  return (
    <Menu position="bottom-end" width={220} shadow="md">
      <Menu.Target>
        <UnstyledButton className={classes.account} aria-label={`Account: ${name}`}>
          <span className={classes.avatar} data-letter={name.slice(0, 1).toUpperCase()} aria-hidden />
          <span className={classes.accountName}>{name}</span>
          <IconChevronDown size={14} aria-hidden />
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <div className={classes.who}>
          <strong>{name}</strong>
          <span className="muted">Role: {session?.role ?? 'none'}</span>
        </div>
        <Menu.Divider />
        <Menu.Item
          leftSection={<IconLogout size={16} stroke={1.6} />}
          disabled={leave.isPending}
          onClick={() => leave.mutate()}
        >
          Log out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
