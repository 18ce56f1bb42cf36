import { describe, expect, it } from 'vitest';

import type { Storage } from '../../api/types';
import { specRows, storageStatus } from './status';

function storage(part: Partial<Storage>): Storage {
  const health = { state: 'ok', message: '', checked_at: null, latency_ms: null } as const;
  return { enabled: true, draining: false, health, ...part } as Storage;
}
const failing = { state: 'failing', message: 'no such directory', checked_at: null, latency_ms: null } as const;

describe('storageStatus', () => {
  it('says what an operator decided before what a check found', () => {
    expect(storageStatus(storage({})).word).toBe('Enabled');
    expect(storageStatus(storage({ enabled: false, health: failing })).word).toBe('Disabled');
    expect(storageStatus(storage({ draining: true })).word).toBe('Draining');
    expect(storageStatus(storage({ draining: true, health: failing }))).toMatchObject({
      word: 'Unreachable',
      hint: 'no such directory',
    });
  });

  it('never shows an unchecked storage as good', () => {
    const unknown = { state: 'unknown', message: '', checked_at: null, latency_ms: null } as const;
    expect(storageStatus(storage({ health: unknown })).tone).toBe('unknown');
  });
});

describe('specRows', () => {
  it('flattens and masks', () => {
    expect(specRows({ root_path: '/kv', auth: { password: 'x', user: 'u' }, list: [1, 2], none: '' })).toEqual([
      { name: 'root_path', value: '/kv' },
      { name: 'auth.password', value: '••••••' },
      { name: 'auth.user', value: 'u' },
      { name: 'list', value: '[1,2]' },
      { name: 'none', value: '' },
    ]);
  });
});
