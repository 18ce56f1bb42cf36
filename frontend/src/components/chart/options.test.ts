import { describe, expect, it } from 'vitest';

import { binaryTop, niceTop, timeRange } from './options';

describe('timeRange', () => {
  it('is as wide as the points, but never narrow', () => {
    expect(timeRange([1000, 1400])).toEqual([1000, 1400]);
    expect(timeRange([1000])).toEqual([880, 1000]);
    expect(timeRange([], 5000)).toEqual([4880, 5000]);
  });
});

describe('niceTop', () => {
  it.each([
    [null, 1],
    [0, 1],
    [0.37, 0.4],
    [92, 100],
    [95, 150],
    [680, 800],
  ])('of %s is %d', (highest, top) => expect(niceTop(highest)).toBeCloseTo(top));
});

describe('binaryTop', () => {
  const GiB = 1024 ** 3;

  it.each([
    [0, 1024],
    [24.4 * 1024 * GiB, 28 * 1024 * GiB],
    [3 * GiB, 3.5 * GiB],
    [1.99 * GiB, 2.5 * GiB],
  ])('of %d is %d', (highest, top) => expect(binaryTop(highest)).toBe(top));
});
