/** A size as people type it: an amount and a unit, without losing a byte of what was there. */

export const UNITS = ['B', 'MiB', 'GiB', 'TiB', 'PiB'] as const;
export type Unit = (typeof UNITS)[number];

const FACTOR: Record<Unit, number> = { B: 1, MiB: 1024 ** 2, GiB: 1024 ** 3, TiB: 1024 ** 4, PiB: 1024 ** 5 };

export interface Amount {
  amount: number;
  unit: Unit;
}

/** The largest unit that shows the size with at most three decimals, exactly. */
export function splitBytes(value: number, unit?: Unit): Amount {
  if (unit) return { amount: value / FACTOR[unit], unit };
  for (const candidate of [...UNITS].reverse()) {
    const amount = value / FACTOR[candidate];
    if (amount >= 1 && Math.round(amount * 1000) / 1000 === amount) return { amount, unit: candidate };
  }
  return { amount: value, unit: 'B' };
}

export function bytesOf({ amount, unit }: Amount): number {
  return Number.isFinite(amount) ? Math.round(amount * FACTOR[unit]) : 0;
}
