/** From buckets of checks to what the chart and the strip draw. Pure. */

import type { HealthSamples } from '../../api/types';
import type { Table } from '../../components/chart/series';

export type BucketState = 'ok' | 'some' | 'failed' | 'none';

export interface Bucket {
  /** Unix seconds of its beginning. */
  at: number;
  checks: number;
  failures: number;
  state: BucketState;
}

/** Every span of the wanted time, also those without a check. */
export function bucketsOf({ since, until, bucket_seconds: step, points }: HealthSamples): Bucket[] {
  const known = new Map(points.map((point) => [Date.parse(point.at) / 1000, point]));
  const first = Math.floor(Date.parse(since) / 1000 / step) * step;
  const last = Date.parse(until) / 1000;
  const found: Bucket[] = [];
  for (let at = first; at < last; at += step) {
    const point = known.get(at);
    const checks = point?.checks ?? 0;
    const failures = point?.failures ?? 0;
    found.push({ at, checks, failures, state: stateOf(checks, failures) });
  }
  return found;
}

function stateOf(checks: number, failures: number): BucketState {
  if (checks === 0) return 'none';
  if (failures === 0) return 'ok';
  return failures < checks ? 'some' : 'failed';
}

/** Average and slowest latency in ms; a span in which no check ended breaks the line. */
export function latencies(samples: HealthSamples): Table {
  const known = new Map(samples.points.map((point) => [Date.parse(point.at) / 1000, point]));
  const times = bucketsOf(samples).map(({ at }) => at);
  return [
    times,
    times.map((at) => known.get(at)?.avg_ms ?? null),
    times.map((at) => known.get(at)?.max_ms ?? null),
  ];
}

export function stripWords(buckets: readonly Bucket[]): string {
  const checks = buckets.reduce((sum, bucket) => sum + bucket.checks, 0);
  const failures = buckets.reduce((sum, bucket) => sum + bucket.failures, 0);
  if (checks === 0) return 'No check in this time.';
  return failures === 0 ? `All ${checks} checks were good.` : `${failures} of ${checks} checks failed.`;
}
