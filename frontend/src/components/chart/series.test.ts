import { describe, expect, it } from 'vitest';

import type { HistoryPoint } from '../../api/types';
import { columns, hitShare, summaryOf } from './series';

const START = Date.UTC(2026, 0, 1) / 1000;

function point(seconds: number, requested: number, hit: number): HistoryPoint {
  return {
    at: new Date((START + seconds) * 1000).toISOString(),
    requests_per_second: seconds,
    requested_blocks: requested,
    hit_blocks: hit,
    used_bytes: 0,
  };
}

describe('columns', () => {
  it('reads times in seconds and values side by side', () => {
    expect(columns([point(0, 10, 5), point(2, 0, 0)], hitShare, (p) => p.requested_blocks)).toEqual([
      [START, START + 2],
      [0.5, null],
      [10, 0],
    ]);
  });

  it('breaks the line where points are missing', () => {
    const [times, values] = columns([point(0, 1, 1), point(60, 1, 1)], hitShare);
    expect(times).toEqual([START, START + 4, START + 60]);
    expect(values).toEqual([1, null, 1]);
  });
});

describe('summaryOf', () => {
  it('ignores what is not known', () => {
    expect(summaryOf([null, 3, 1, 2, null])).toEqual({ latest: 2, lowest: 1, highest: 3 });
    expect(summaryOf([null])).toBeNull();
  });
});
