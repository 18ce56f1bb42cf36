/** Ground for tests that draw. Such a test starts with `// @vitest-environment jsdom`. */

import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, type RenderResult } from '@testing-library/react';
import type { ReactNode } from 'react';
import { afterEach } from 'vitest';

import { sessionQuery } from '../api/session';
import type { Session } from '../api/types';

afterEach(() => cleanup());

// jsdom has neither; Mantine asks for both.
const matchMedia = (query: string) => ({
  matches: false,
  media: query,
  onchange: null,
  addEventListener: () => undefined,
  removeEventListener: () => undefined,
  addListener: () => undefined,
  removeListener: () => undefined,
  dispatchEvent: () => false,
});

class NoResizeObserver implements ResizeObserver {
  observe() {
    return undefined;
  }
  unobserve() {
    return undefined;
  }
  disconnect() {
    return undefined;
  }
}
Object.assign(window, { matchMedia, ResizeObserver: NoResizeObserver });

export function sessionOf(role: Session['role']): Session {
  return { authenticated: role !== null, username: 'ada', role, theme: 'light' };
}

/** Draws with the providers that every page has, signed in as `role`. */
export function draw(children: ReactNode, role: Session['role'] = 'operator'): RenderResult {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  client.setQueryData(sessionQuery.queryKey, sessionOf(role));
  return render(
    <MantineProvider env="test">
      <QueryClientProvider client={client}>{children}</QueryClientProvider>
    </MantineProvider>,
  );
}
