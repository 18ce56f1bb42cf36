import type { GroupUsage, InstanceGroup } from '../../api/types';
import { bytes, share } from '../../lib/format';

type Limits = Pick<InstanceGroup['reclaim'], 'used_ratio' | 'used_bytes' | 'low_watermark_ratio'>;

/** The share of the quota above which reclaim starts: the lower of the two triggers that are set. */
export function highWatermark(reclaim: Limits, quotaBytes: number): number | null {
  const triggers: number[] = [];
  if (reclaim.used_ratio > 0) triggers.push(reclaim.used_ratio);
  if (reclaim.used_bytes > 0 && quotaBytes > 0) triggers.push(reclaim.used_bytes / quotaBytes);
  return triggers.length > 0 ? Math.min(...triggers) : null;
}

/** What the quota has to hold: what is there, what is promised, and what is not yet given back. */
export function heldBytes(usage: GroupUsage): number {
  return usage.used_bytes + usage.reserved_bytes + usage.pending_bytes;
}

export interface Effect {
  tone: 'ok' | 'warn' | 'critical';
  text: string;
}

/** What a changed quota or ratio does to a group as it is used now. */
export function effectOf(group: InstanceGroup, quotaBytes: number, usedRatio: number): Effect {
  if (!group.usage) return { tone: 'ok', text: 'The effect is not known: the index does not answer.' };
  const used = heldBytes(group.usage);
  const after = `${bytes(used)} in use is ${share(quotaBytes > 0 ? used / quotaBytes : null)} of it`;
  if (used > quotaBytes) {
    return {
      tone: 'critical',
      text: `${after}: writes are refused until ${bytes(used - quotaBytes)} are given back.`,
    };
  }
  const high = highWatermark({ ...group.reclaim, used_ratio: usedRatio }, quotaBytes);
  if (high !== null && used > high * quotaBytes) {
    const low = group.reclaim.low_watermark_ratio ?? high;
    const freed = used - Math.min(low, high) * quotaBytes;
    return { tone: 'warn', text: `${after}: starts reclaim of about ${bytes(freed)}.` };
  }
  return { tone: 'ok', text: `${after}: nothing is reclaimed now.` };
}
