import { describe, expect, it } from 'vitest';

import type { HealthSamples } from '../../api/types';
import { bucketsOf, latencies, stripWords } from './samples';

const at = (seconds: number) => new Date(seconds * 1000).toISOString();
const SAMPLES: HealthSamples = {
  since: at(1003),
  until: at(1050),
  bucket_seconds: 10,
  points: [
    { at: at(1000), checks: 2, failures: 0, min_ms: 1, avg_ms: 2, max_ms: 3 },
    { at: at(1020), checks: 2, failures: 1, min_ms: 4, avg_ms: 5, max_ms: 6 },
    { at: at(1030), checks: 2, failures: 2, min_ms: null, avg_ms: null, max_ms: null },
  ],
};

describe('checks of a storage', () => {
  it('fill the whole span, also where nobody looked', () => {
    expect(bucketsOf(SAMPLES).map(({ at: time, state }) => [time, state])).toEqual([
      [1000, 'ok'],
      [1010, 'none'],
      [1020, 'some'],
      [1030, 'failed'],
      [1040, 'none'],
    ]);
  });

  it('break the line where none ended', () => {
    expect(latencies(SAMPLES)).toEqual([
      [1000, 1010, 1020, 1030, 1040],
      [2, null, 5, null, null],
      [3, null, 6, null, null],
    ]);
  });

  it('are told in words', () => {
    expect(stripWords(bucketsOf(SAMPLES))).toBe('3 of 6 checks failed.');
    expect(stripWords([])).toBe('No check in this time.');
  });
});
