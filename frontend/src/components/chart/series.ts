/** From history points to columns that uPlot draws. Pure. */

import type { HistoryPoint } from '../../api/types';

/** Points come every 2 s; where more than this is missing the line is broken, not bridged. */
export const GAP_SECONDS = 8;

export type Column = (number | null)[];
export type Table = [times: number[], ...columns: Column[]];

export function columns(
  history: readonly HistoryPoint[],
  ...read: ((point: HistoryPoint) => number | null)[]
): Table {
  const times: number[] = [];
  const values: Column[] = read.map(() => []);
  let last: number | null = null;
  for (const point of history) {
    const time = Date.parse(point.at) / 1000;
    if (Number.isNaN(time)) continue;
    if (last !== null && time - last > GAP_SECONDS) {
      times.push(last + GAP_SECONDS / 2);
      values.forEach((column) => column.push(null));
    }
    times.push(time);
    read.forEach((value, index) => values[index]?.push(value(point)));
    last = time;
  }
  return [times, ...values];
}

export function hitShare({ hit_blocks: hit, requested_blocks: requested }: HistoryPoint): number | null {
  return requested > 0 ? hit / requested : null;
}

export interface Summary {
  latest: number;
  lowest: number;
  highest: number;
}

/** What a reader who cannot see the curve is told. Null while there is nothing to tell. */
export function summaryOf(column: Column): Summary | null {
  const known = column.filter((value): value is number => value !== null);
  const latest = known.at(-1);
  if (latest === undefined) return null;
  return { latest, lowest: Math.min(...known), highest: Math.max(...known) };
}
