/** What an online estimate says in words. Rates are shares of what prefix matches asked for. */

import type { Estimate } from '../../api/types';
import { share } from '../../lib/format';

/** Differences below this are within what sampling and an LRU model leave open. */
export const NOTICEABLE = 0.005;

export interface CapacityRow {
  key: string;
  label: string;
  capacityBytes: number | null;
  rate: number | null;
  hitBlocks: number;
  /** To the estimate at the present capacity; null for that one and for what was measured. */
  gain: number | null;
}

const LABELS: Record<number, string> = { 0.5: 'Half', 1: 'Present', 2: 'Twice', 4: 'Four times' };

/** What was measured first, then the estimates by capacity. */
export function capacityRows(estimate: Estimate): CapacityRow[] {
  const present = rateAt(estimate, 1);
  return [
    { key: 'real', label: 'Measured', capacityBytes: null, rate: estimate.real_hit_rate, hitBlocks: estimate.real_hit_blocks, gain: null },
    ...estimate.points.map(({ factor, capacity_bytes, hit_rate, hit_blocks }) => ({
      key: String(factor),
      label: LABELS[factor] ?? `${factor} ×`,
      capacityBytes: capacity_bytes,
      rate: hit_rate,
      hitBlocks: hit_blocks,
      gain: factor === 1 || hit_rate === null || present === null ? null : hit_rate - present,
    })),
  ];
}

export function rateAt({ points }: Estimate, factor: number): number | null {
  return points.find((point) => point.factor === factor)?.hit_rate ?? null;
}

/** A difference of shares: 0.042 → "+4.2 points", what rounds to nothing → "no change". */
export function points(gain: number): string {
  const size = Math.round(Math.abs(gain) * 1000) / 10;
  if (size === 0) return 'no change';
  const sign = gain < 0 ? '−' : '+';
  return `${sign}${size.toLocaleString('en', { maximumFractionDigits: 1 })} points`;
}

/** The sentence for whoever wants to know whether to add capacity. */
export function advice(estimate: Estimate): string {
  const [half, present, twice, four] = [0.5, 1, 2, 4].map((factor) => rateAt(estimate, factor));
  if (half == null || present == null || twice == null || four == null) return '';
  const more =
    four - present < NOTICEABLE
      ? 'More capacity would hardly hit more.'
      : twice - present < NOTICEABLE
        ? `Twice the capacity would hit hardly more than now, four times ${share(four)} of the blocks.`
        : four - twice < NOTICEABLE
          ? `Twice the capacity would hit ${share(twice)} of the blocks, four times hardly more.`
          : `Twice the capacity would hit ${share(twice)} of the blocks, four times ${share(four)}.`;
  const less = present - half < NOTICEABLE ? ' Half of it would do.' : '';
  return more + less;
}
