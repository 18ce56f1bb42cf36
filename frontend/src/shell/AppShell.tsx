import { Outlet } from '@tanstack/react-router';
import { useState } from 'react';

import { LiveProvider } from '../live/LiveProvider';
import classes from './AppShell.module.css';
import { Header } from './Header';
import { Navigation } from './Navigation';
import { ShortcutSheet } from './ShortcutSheet';
import { useGlobalShortcuts } from './useGlobalShortcuts';
import { useThemeOfAccount } from './useTheme';

export function AppShell() {
  return (
    <LiveProvider>
      <Shell />
    </LiveProvider>
  );
}

function Shell() {
  const [sheetOpen, setSheetOpen] = useState(false);
  useThemeOfAccount();
  useGlobalShortcuts(() => setSheetOpen(true));
  return (
    <div className={classes.shell}>
      <a className={classes.skip} href="#content">
        Skip to content
      </a>
      <Header onShortcuts={() => setSheetOpen(true)} />
      <Navigation />
      <main id="content" tabIndex={-1} className={classes.main}>
        <Outlet />
      </main>
      <ShortcutSheet opened={sheetOpen} onClose={() => setSheetOpen(false)} />
    </div>
  );
}
