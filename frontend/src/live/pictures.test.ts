import { describe, expect, it } from 'vitest';

import type { Alert, Page, Storage, StorageNow } from '../api/types';
import { isNewer, noPicture, pageWithNow, pictureOf, withNow } from './pictures';
import type { LiveData } from './protocol';

const message = (seq: number, at: string, kind: LiveData['kind'] = 'change'): LiveData => ({
  topic: 'alerts',
  kind,
  seq,
  at,
  data: {},
});

describe('isNewer', () => {
  it('takes what follows, also after a gap, and drops what is old', () => {
    expect(isNewer(noPicture, message(7, '2026-01-01T00:00:00Z'))).toBe(true);
    const state = { seq: 7, at: '2026-01-01T00:00:10Z' };
    expect(isNewer(state, message(9, '2026-01-01T00:00:11Z'))).toBe(true);
    expect(isNewer(state, message(7, '2026-01-01T00:00:10Z'))).toBe(false);
    expect(isNewer(state, message(1, '2026-01-01T00:00:05Z', 'snapshot'))).toBe(true);
  });

  it('begins anew with a sender that was restarted', () => {
    expect(isNewer({ seq: 7, at: '2026-01-01T00:00:10Z' }, message(1, '2026-01-01T00:01:00Z'))).toBe(true);
  });
});

describe('what is pushed of storages', () => {
  const storage = { name: 'a', version: 2, spec: { x: 1 }, draining: true } as unknown as Storage;
  const now = (version: number) => ({ name: 'a', version, draining: false }) as unknown as StorageNow;

  it('replaces what moves and keeps the spec', () => {
    expect(withNow(storage, now(2))).toMatchObject({ draining: false, spec: { x: 1 } });
    expect(withNow(storage, undefined)).toBe(storage);
  });

  it('never sets back what a write answered', () => {
    expect(withNow(storage, now(1))).toBe(storage);
  });

  it('reaches the rows of a page by name', () => {
    const page: Page<Storage> = { count: 2, results: [storage, { ...storage, name: 'b' }] };
    const merged = pageWithNow(page, { storages: [now(3)], is_complete: true });
    expect(merged.results.map(({ draining }) => draining)).toEqual([false, true]);
  });
});

describe('what is polled of alerts', () => {
  it('has the form of the topic', () => {
    const alerts = [{ severity: 'critical' }, { severity: 'info' }, { severity: 'critical' }] as Alert[];
    expect(pictureOf({ count: 3, results: alerts }).counts).toEqual({ critical: 2, warning: 0, info: 1 });
  });
});
