import { describe, expect, it } from 'vitest';

import type { Storage } from '../../api/types';
import { specRows, storageStatus } from './status';

const healthy = {
  state: 'ok',
  message: '',
  checked_at: null,
  latency_ms: null,
  failures_in_row: 0,
  successes_in_row: 1,
  full: false,
  full_reason: '',
  over_capacity: false,
  device_used_bytes: null,
  device_capacity_bytes: null,
  free_bytes: null,
} as const;
const failing = { ...healthy, state: 'failing', message: 'no such directory' } as const;

function storage(part: Partial<Storage>): Storage {
  return { enabled: true, draining: false, leaving: false, health: healthy, ...part } as Storage;
}

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

  it('says that it takes no new blocks, and that it is on its way out', () => {
    const full = { ...healthy, full: true, full_reason: 'No space left on device' };
    expect(storageStatus(storage({ health: full }))).toMatchObject({ word: 'Full', hint: 'No space left on device' });
    expect(storageStatus(storage({ health: failing, leaving: true })).word).toBe('Leaving');
  });

  it('never shows an unchecked storage as good', () => {
    const unknown = { ...healthy, state: 'unknown' } as const;
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
