import '@mantine/core/styles.layer.css';
import '@mantine/notifications/styles.layer.css';
import './theme/fonts.css';
import './theme/base.css';

import { localStorageColorSchemeManager, MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';

import { onUnauthenticated } from './api/client';
import { ANONYMOUS, safeNext, sessionQuery } from './api/session';
import { queryClient } from './app/queryClient';
import { router } from './app/router';
import { theme, variablesResolver } from './theme/theme';

// The same key as public/theme-boot.js, which sets the theme before this script runs.
const colorSchemeManager = localStorageColorSchemeManager({ key: 'kvcm-theme' });

onUnauthenticated(() => {
  queryClient.setQueryData(sessionQuery.queryKey, ANONYMOUS);
  const { pathname, href } = router.state.location;
  if (pathname === '/login') return;
  const next = safeNext(href);
  void router.navigate({ to: '/login', search: next === '/' ? {} : { next } });
});

const container = document.getElementById('root');
if (!container) throw new Error('index.html has no #root');

createRoot(container).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      cssVariablesResolver={variablesResolver}
      colorSchemeManager={colorSchemeManager}
      defaultColorScheme="auto"
    >
      <QueryClientProvider client={queryClient}>
        <Notifications position="bottom-right" autoClose={5000} />
        <RouterProvider router={router} />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
