import type { GroupUsage, InstanceGroup } from '../../api/types';
import { bytes, share } from '../../lib/format';

type Limits = Pick<InstanceGroup['reclaim'], 'used_ratio' | 'used_bytes' | 'low_watermark_ratio'>;

/**
 * The share of the quota at which reclaim starts; null = only a quota below what is used starts it.
 * A ratio above 1 means "never by this trigger"; bytes count only where there is no ratio.
 */
export function highWatermark(reclaim: Limits, quotaBytes: number): number | null {
  if (reclaim.used_ratio > 0) return reclaim.used_ratio <= 1 ? reclaim.used_ratio : null;
  if (reclaim.used_bytes > 0 && quotaBytes > 0) return Math.min(1, reclaim.used_bytes / quotaBytes);
  return null;
}

/** The share at which a run ends: five points below the high mark, or a tenth of it if less; 95 % of one in bytes. */
export function lowWatermark(reclaim: Limits, quotaBytes: number): number {
  const high = highWatermark(reclaim, quotaBytes) ?? 1;
  const own = reclaim.low_watermark_ratio;
  if (own != null && own < high) return own;
  const isInBytes = reclaim.used_ratio === 0 && reclaim.used_bytes > 0;
  return isInBytes ? 0.95 * high : high - Math.min(0.05, high / 10);
}

/** What the quota has to hold: what is there, what is promised, and (part of `used_bytes`) not yet given back. */
export function heldBytes(usage: GroupUsage): number {
  return usage.used_bytes + usage.reserved_bytes;
}

/** What marks are compared with: what waits for its deletion is on its way out. */
export function liveBytes(usage: GroupUsage): number {
  return heldBytes(usage) - usage.pending_bytes;
}

export interface Effect {
  tone: 'ok' | 'warn' | 'critical';
  text: string;
}

/** What a changed quota or ratio does to a group as it is used now. */
export function effectOf(group: InstanceGroup, quotaBytes: number, usedRatio: number): Effect {
  if (!group.usage) return { tone: 'ok', text: 'The effect is not known: the index does not answer.' };
  const held = heldBytes(group.usage);
  const live = liveBytes(group.usage);
  const limits = { ...group.reclaim, used_ratio: usedRatio };
  const after = `${bytes(held)} in use is ${share(quotaBytes > 0 ? held / quotaBytes : null)} of it`;
  const freed = live - lowWatermark(limits, quotaBytes) * quotaBytes;
  if (held > quotaBytes) {
    const until = `writes are refused until ${bytes(held - quotaBytes)} are given back`;
    const takes = live > quotaBytes ? `; reclaim takes about ${bytes(freed)}` : '';
    return { tone: 'critical', text: `${after}: ${until}${takes}.` };
  }
  const high = highWatermark(limits, quotaBytes);
  if (high !== null && live >= high * quotaBytes && freed > 0) {
    return { tone: 'warn', text: `${after}: starts reclaim of about ${bytes(freed)}.` };
  }
  return { tone: 'ok', text: `${after}: nothing is reclaimed now.` };
}
