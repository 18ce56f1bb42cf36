import { describe, expect, it } from 'vitest';

import { bytesOf, splitBytes } from './quotaInput';

describe('splitBytes', () => {
  it.each([
    [2 * 1024 ** 4, { amount: 2, unit: 'TiB' }],
    [1.5 * 1024 ** 3, { amount: 1.5, unit: 'GiB' }],
    [1_000_000_007, { amount: 1_000_000_007, unit: 'B' }],
    [0, { amount: 0, unit: 'B' }],
  ])('%d', (value, amount) => expect(splitBytes(value)).toEqual(amount));

  it('never loses a byte', () => {
    for (const value of [1, 1023, 1024 ** 2 + 1, 123_456_789_012, 7 * 1024 ** 5]) {
      expect(bytesOf(splitBytes(value))).toBe(value);
    }
  });

  it('keeps the size when the unit changes', () => {
    expect(bytesOf(splitBytes(3 * 1024 ** 3, 'TiB'))).toBe(3 * 1024 ** 3);
  });
});
