import { queryOptions } from '@tanstack/react-query';

import { request } from './client';
import { endpoint } from './endpoints';
import type { Role, Session, ThemeChoice } from './types';

export const ANONYMOUS: Session = { authenticated: false, username: null, role: null, theme: 'system' };

/** Who is signed in. Answered for anonymous callers too; the answer sets the CSRF cookie. */
export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: ({ signal }) => request<Session>(endpoint('session'), { signal }),
  staleTime: 5 * 60_000,
});

export async function logIn(username: string, password: string): Promise<void> {
  await request(endpoint('login'), { method: 'POST', body: { username, password } });
}

export async function logOut(): Promise<void> {
  await request(endpoint('logout'), { method: 'POST' });
}

export async function saveTheme(theme: ThemeChoice): Promise<void> {
  await request(endpoint('session'), { method: 'PATCH', body: { theme } });
}

const RANK: Record<Role, number> = { engine: 0, viewer: 1, operator: 2, admin: 3 };

export function hasRole(role: Role | null, needed: Role): boolean {
  return role !== null && RANK[role] >= RANK[needed];
}

/** Why a person may not use a control; null when they may. The server has the last word. */
export function refusalFor(session: Session | undefined, needed: Role): string | null {
  if (!session?.authenticated) return 'Sign in to do this.';
  if (hasRole(session.role, needed)) return null;
  return `Needs the role ${needed}; you are signed in as ${session.role ?? 'nobody'}.`;
}

/** Where to go after signing in: a path of this site, never another address. */
export function safeNext(next: unknown): string {
  if (typeof next !== 'string' || !/^\/(?![/\\])/.test(next) || next.startsWith('/login')) return '/';
  return next;
}
