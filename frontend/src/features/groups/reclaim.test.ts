import { describe, expect, it } from 'vitest';

import type { InstanceGroup } from '../../api/types';
import { effectOf, highWatermark } from './reclaim';

const GiB = 1024 ** 3;

function group(usedGiB: number, low: number | null = null): InstanceGroup {
  return {
    reclaim: { used_ratio: 0.8, used_bytes: 0, low_watermark_ratio: low },
    usage: { used_bytes: usedGiB * GiB, reserved_bytes: 0, pending_bytes: 0, blocks: 1, per_type: {} },
  } as unknown as InstanceGroup;
}

describe('highWatermark', () => {
  const limits = { used_ratio: 0.8, used_bytes: 0, low_watermark_ratio: null };

  it('is the trigger that fires first', () => {
    expect(highWatermark(limits, 100)).toBe(0.8);
    expect(highWatermark({ ...limits, used_bytes: 50 }, 100)).toBe(0.5);
    expect(highWatermark({ ...limits, used_ratio: 0, used_bytes: 0 }, 100)).toBeNull();
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

  it('warns that writes will be refused', () => {
    expect(effectOf(group(120), 100 * GiB, 0.8)).toMatchObject({
      tone: 'critical',
      text: expect.stringContaining('until 20 GiB are given back') as string,
    });
  });
});
