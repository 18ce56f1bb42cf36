import { describe, expect, it } from 'vitest';

import type { InstanceGroup } from '../../api/types';
import { effectOf, heldBytes, highWatermark, liveBytes, lowWatermark } from './reclaim';

const GiB = 1024 ** 3;

function group(usedGiB: number, low: number | null = null): InstanceGroup {
  return {
    reclaim: { used_ratio: 0.8, used_bytes: 0, low_watermark_ratio: low },
    usage: { used_bytes: usedGiB * GiB, reserved_bytes: 0, pending_bytes: 0, blocks: 1, per_type: {} },
  } as unknown as InstanceGroup;
}

describe('the marks', () => {
  const limits = { used_ratio: 0.8, used_bytes: 0, low_watermark_ratio: null };

  // Expected values: DESIGN 6 and WIRE.md A.
  it.each([
    [{}, 0.8, 0.75],
    [{ used_ratio: 0.3 }, 0.3, 0.27],
    [{ low_watermark_ratio: 0.6 }, 0.8, 0.6],
    [{ used_bytes: 50 }, 0.8, 0.75],
    [{ used_ratio: 0, used_bytes: 50 }, 0.5, 0.475],
    [{ used_ratio: 0, used_bytes: 50, low_watermark_ratio: 0.6 }, 0.5, 0.475],
    [{ used_ratio: 0 }, null, 0.95],
    [{ used_ratio: 3.2 }, null, 0.95],
    [{ used_ratio: 1 }, 1, 0.95],
  ])('%j', (change, high, low) => {
    expect(highWatermark({ ...limits, ...change }, 100)).toBe(high);
    expect(lowWatermark({ ...limits, ...change }, 100)).toBeCloseTo(low, 9);
  });
});

describe('what is compared', () => {
  const usage = { used_bytes: 90, reserved_bytes: 5, pending_bytes: 30, blocks: 1, per_type: {} };

  it('is all of it for the quota, and without pending deletions for the marks', () => {
    expect(heldBytes(usage)).toBe(95);
    expect(liveBytes(usage)).toBe(65);
  });

  it('asks for nothing that is on its way out', () => {
    const group = {
      reclaim: { used_ratio: 0.8, used_bytes: 0, low_watermark_ratio: null },
      usage: { ...usage, used_bytes: 90 * GiB, reserved_bytes: 0, pending_bytes: 30 * GiB },
    } as unknown as InstanceGroup;
    expect(effectOf(group, 100 * GiB, 0.8).tone).toBe('ok');
  });
});

describe('effectOf', () => {
  it('is quiet below the watermark', () => {
    expect(effectOf(group(50), 100 * GiB, 0.8)).toEqual({
      tone: 'ok',
      text: '50 GiB in use is 50 % of it: nothing is reclaimed now.',
    });
  });

  it('says how much reclaim takes down to the low watermark', () => {
    expect(effectOf(group(90, 0.6), 100 * GiB, 0.8)).toMatchObject({
      tone: 'warn',
      text: expect.stringContaining('reclaim of about 30 GiB') as string,
    });
  });

  it('begins at the mark, and ends five points below it by itself', () => {
    expect(effectOf(group(80), 100 * GiB, 0.8)).toMatchObject({
      tone: 'warn',
      text: expect.stringContaining('reclaim of about 5 GiB') as string,
    });
  });

  it('warns that writes will be refused, and says what reclaim takes', () => {
    expect(effectOf(group(120), 100 * GiB, 0.8)).toEqual({
      tone: 'critical',
      text: '120 GiB in use is 120 % of it: writes are refused until 20 GiB are given back; reclaim takes about 45 GiB.',
    });
  });
});
