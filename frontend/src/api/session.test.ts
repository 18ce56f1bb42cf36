import { describe, expect, it } from 'vitest';

import { ANONYMOUS, hasRole, refusalFor, safeNext } from './session';
import type { Session } from './types';

const viewer: Session = { authenticated: true, username: 'v', role: 'viewer', theme: 'dark' };

describe('roles', () => {
  it('rank', () => {
    expect(hasRole('admin', 'operator')).toBe(true);
    expect(hasRole('viewer', 'operator')).toBe(false);
    expect(hasRole('engine', 'viewer')).toBe(false);
    expect(hasRole(null, 'viewer')).toBe(false);
  });

  it('say which one is missing', () => {
    expect(refusalFor(viewer, 'operator')).toBe('Needs the role operator; you are signed in as viewer.');
    expect(refusalFor({ ...viewer, role: 'operator' }, 'operator')).toBeNull();
    expect(refusalFor(ANONYMOUS, 'viewer')).toBe('Sign in to do this.');
  });
});

describe('safeNext', () => {
  it.each([
    ['/storages?q=a', '/storages?q=a'],
    ['//evil.example', '/'],
    ['/\\evil.example', '/'],
    ['https://evil.example', '/'],
    ['/login?next=/', '/'],
    [undefined, '/'],
  ])('%s leads to %s', (next, path) => expect(safeNext(next)).toBe(path));
});
