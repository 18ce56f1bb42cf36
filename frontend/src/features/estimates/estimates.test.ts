import { describe, expect, it } from 'vitest';

import type { Estimate } from '../../api/types';
import { advice, capacityRows, points } from './estimates';

function estimate(rates: (number | null)[], real: number | null = 0.2): Estimate {
  const factors = [0.5, 1, 2, 4];
  return {
    real_hit_rate: real,
    points: rates.map((hit_rate, at) => ({ factor: factors[at], capacity_bytes: 1000 * (factors[at] ?? 0), hit_rate })),
  } as unknown as Estimate;
}

describe('the rows', () => {
  it('begin with what was measured and tell each difference to the present capacity', () => {
    const rows = capacityRows(estimate([0.1, 0.25, 0.4, 0.75]));
    expect(rows.map(({ label }) => label)).toEqual(['Measured', 'Half', 'Present', 'Twice', 'Four times']);
    expect(rows.map(({ rate }) => rate)).toEqual([0.2, 0.1, 0.25, 0.4, 0.75]);
    expect(rows.map(({ gain }) => gain && Math.round(gain * 100))).toEqual([null, -15, null, 15, 50]);
  });

  it('have no rate where nothing was asked for', () => {
    const rows = capacityRows(estimate([null, null, null, null], null));
    expect(rows.every(({ rate, gain }) => rate === null && gain === null)).toBe(true);
  });
});

describe('the sentence', () => {
  it.each([
    [[0.1, 0.2, 0.3, 0.4], 'Twice the capacity would hit 30 % of the blocks, four times 40 %.'],
    [[0.1, 0.2, 0.3, 0.303], 'Twice the capacity would hit 30 % of the blocks, four times hardly more.'],
    [[0.1, 0.2, 0.201, 0.4], 'Twice the capacity would hit hardly more than now, four times 40 % of the blocks.'],
    [[0.1, 0.2, 0.201, 0.204], 'More capacity would hardly hit more.'],
    [[0.2, 0.2, 0.2, 0.2], 'More capacity would hardly hit more. Half of it would do.'],
    [[null, null, null, null], ''],
  ])('for %j is "%s"', (rates, expected) => {
    expect(advice(estimate(rates))).toBe(expected);
  });
});

it.each([
  [0.042, '+4.2 points'],
  [-0.1, '−10 points'],
  [0.0001, 'no change'],
])('%d is %s', (gain, expected) => {
  expect(points(gain)).toBe(expected);
});
