/** Times are shown relative, with the absolute time on hover. */

import { NOTHING } from './format';

export function parseTime(iso: string | null | undefined): number | null {
  if (!iso) return null;
  const time = Date.parse(iso);
  return Number.isNaN(time) ? null : time;
}

/** "just now", "12 s ago", "in 5 min". A clock a few seconds off must not read as the future. */
export function relativeTime(iso: string | null | undefined, now: number): string {
  const time = parseTime(iso);
  if (time === null) return NOTHING;
  const seconds = Math.round((now - time) / 1000);
  const size = Math.abs(seconds);
  if (size < 5) return 'just now';
  const text = spell(size);
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

function spell(seconds: number): string {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  const days = Math.floor(seconds / 86_400);
  return days === 1 ? '1 day' : `${days} days`;
}

const pad = (value: number) => String(value).padStart(2, '0');

/** "2026-03-04 12:03:10" on the reader's clock. */
export function absoluteTime(iso: string | null | undefined): string {
  const time = parseTime(iso);
  if (time === null) return NOTHING;
  const date = new Date(time);
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  return `${day} ${clock(time)}`;
}

export function utcTime(iso: string | null | undefined): string {
  const time = parseTime(iso);
  return time === null ? NOTHING : `${new Date(time).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

/** "12:03:10" on the reader's clock. */
export function clock(time: number): string {
  const date = new Date(time);
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

const MONTHS = [
  'January', 'February', 'March', 'April', 'May', 'June',
  'July', 'August', 'September', 'October', 'November', 'December',
] as const;

/** "2026-11" → "November 2026". */
export function monthName(month: string): string {
  const [year, number] = month.split('-');
  return `${MONTHS[Number(number) - 1] ?? ''} ${year ?? ''}`.trim();
}
