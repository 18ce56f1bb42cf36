import { describe, expect, it } from 'vitest';

import type { Overview } from '../../api/types';
import { figuresOf, verdictSentence } from './figures';

const GiB = 1024 ** 3;

const overview: Overview = {
  requests_per_second: 12.34,
  requested_blocks: 12_345_678,
  hit_blocks: 7_000_000,
  hit_rate: 0.567,
  totals: { requests: 1, requested_blocks: 2, hit_blocks: 1, written_blocks: 1, write_refused: 0, quota_refused: 0 },
  used_bytes: 10 * GiB,
  reserved_bytes: 0,
  pending_bytes: 0,
  quota_bytes: 40 * GiB,
  blocks: 5,
  open_write_sessions: 3,
  storages_healthy: 1,
  storages_total: 2,
  groups_total: 1,
  instances_total: 4,
  day: null,
  savings: null,
  processes: [],
  rpcs: [],
  verdict: { state: 'ok', reasons: [] },
  history: [],
};

const text = (part: Partial<Overview> = {}) =>
  Object.fromEntries(figuresOf({ ...overview, ...part }).map(({ label, value }) => [label, value]));

describe('figuresOf', () => {
  it('names the eight figures of the contract', () => {
    expect(text()).toEqual({
      'Requests per second': '12.3',
      'Hit rate': '56.7 %',
      'Requested blocks': '12,345,678',
      'Hit blocks': '7,000,000',
      Used: '10 GiB',
      Quota: '40 GiB',
      'Open write sessions': '3',
      'Healthy storages': '1 of 2',
    });
  });

  it('does not call an idle platform a miss', () => {
    expect(text({ hit_rate: null })['Hit rate']).toBe('–');
  });
});

describe('verdictSentence', () => {
  it('counts when all is well', () => {
    expect(verdictSentence(overview)).toBe('All is well: 4 instances, 1 group, 2 storages.');
  });

  it('does not boast of an empty platform', () => {
    expect(verdictSentence({ ...overview, storages_total: 0 })).toBe(
      'All is well, but no storage is configured yet.',
    );
  });

  it('gives the reasons when it is not', () => {
    const verdict = { state: 'degraded' as const, reasons: ['Storage nfs_02 is unavailable: gone.'] };
    expect(verdictSentence({ ...overview, verdict })).toBe('Degraded: Storage nfs_02 is unavailable: gone.');
  });
});
