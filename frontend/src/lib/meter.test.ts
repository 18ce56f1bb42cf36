import { describe, expect, it } from 'vitest';

import { meterLevel, segments } from './meter';

describe('meterLevel', () => {
  it.each([
    [10, 100, 0.8, 'ok'],
    [80, 100, 0.8, 'warn'],
    [98, 100, 0.8, 'critical'],
    [150, 100, 0.8, 'critical'],
    [90, 100, null, 'ok'],
    [90, null, 0.8, 'none'],
    [90, 0, 0.8, 'none'],
  ])('%d of %s with a watermark of %s is %s', (used, limit, high, level) =>
    expect(meterLevel(used, limit, { high })).toBe(level),
  );
});

describe('segments', () => {
  it('lays parts side by side', () => {
    expect(segments([{ key: 'used', value: 50 }, { key: 'reserved', value: 25 }], 100)).toEqual([
      { key: 'used', value: 50, start: 0, width: 0.5 },
      { key: 'reserved', value: 25, start: 0.5, width: 0.25 },
    ]);
  });

  it('scales what is over the limit', () => {
    expect(segments([{ key: 'used', value: 200 }], 100)[0]).toMatchObject({ width: 1 });
  });

  it('draws nothing of nothing', () => {
    expect(segments([{ key: 'used', value: 0 }], 0)).toEqual([]);
  });
});
