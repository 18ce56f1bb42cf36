/** Arithmetic of a meter: parts of a whole, with two watermarks. Pure, so that it can be tested. */

export type MeterLevel = 'ok' | 'warn' | 'critical' | 'none';

export interface Watermarks {
  /** Reclaim or avoidance starts above it (0..1). */
  high?: number | null;
  /** It stops below it. */
  low?: number | null;
}

/** Full is critical, above the high watermark a warning; without a limit there is no level. */
export function meterLevel(used: number, limit: number | null, { high }: Watermarks = {}): MeterLevel {
  if (limit === null || limit <= 0) return 'none';
  const ratio = used / limit;
  if (ratio >= 0.98) return 'critical';
  return high != null && ratio >= high ? 'warn' : 'ok';
}

export interface Part {
  key: string;
  value: number;
}

export interface Segment extends Part {
  /** Shares of the bar's whole width, 0..1. */
  start: number;
  width: number;
}

/** Lays parts side by side; a bar that is over its limit is scaled, never cut. */
export function segments(parts: readonly Part[], limit: number): Segment[] {
  const total = parts.reduce((sum, part) => sum + Math.max(0, part.value), 0);
  const whole = Math.max(limit, total);
  if (whole <= 0) return [];
  let start = 0;
  return parts.map((part) => {
    const width = Math.max(0, part.value) / whole;
    const segment = { ...part, start, width };
    start += width;
    return segment;
  });
}
