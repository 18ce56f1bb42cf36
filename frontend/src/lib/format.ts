/** How figures are written, everywhere. Each takes the raw value and never rounds it elsewhere. */

export const NOTHING = '–';

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'] as const;
const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

function trimmed(value: number, digits: number): string {
  return value.toLocaleString('en', { maximumFractionDigits: digits, minimumFractionDigits: 0 });
}

/** 1536 → "1.5 KiB". Three significant digits: as much as a glance takes in. */
export function bytes(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return NOTHING;
  const sign = value < 0 ? '−' : '';
  let size = Math.abs(value);
  let unit = 0;
  // 1023.95 would round up to "1,024": step over before it does.
  while (size >= 1023.95 && unit < BYTE_UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return `${sign}${trimmed(size, digits)} ${BYTE_UNITS[unit] ?? 'B'}`;
}

export function exactBytes(value: number): string {
  return `${whole.format(value)} bytes`;
}

/** 1234567 → "1,234,567". */
export function exact(value: number | null | undefined): string {
  return value == null || !Number.isFinite(value) ? NOTHING : whole.format(value);
}

/** Full digits below ten thousand, then "12.3 k", "4.56 M", "7.89 G". */
export function count(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return NOTHING;
  const size = Math.abs(value);
  if (size < 10_000) return whole.format(value);
  for (const [limit, factor, unit] of [
    [999_500, 1e3, 'k'],
    [999_500_000, 1e6, 'M'],
    [Number.POSITIVE_INFINITY, 1e9, 'G'],
  ] as const) {
    if (size < limit) {
      const scaled = value / factor;
      return `${trimmed(scaled, Math.abs(scaled) >= 100 ? 0 : Math.abs(scaled) >= 10 ? 1 : 2)} ${unit}`;
    }
  }
  return whole.format(value);
}

/** A rate a second: two decimals while small, none once large. */
export function rate(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return NOTHING;
  const size = Math.abs(value);
  if (size >= 10_000) return count(value);
  return trimmed(value, size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

/** 0.625 → "62.5 %". The whole is shown as "100 %" only when it is whole. */
export function share(value: number | null | undefined, digits = 1): string {
  if (value == null || !Number.isFinite(value)) return NOTHING;
  const percent = value * 100;
  const largest = 100 - 10 ** -digits;
  const shown = percent < 100 && percent > largest ? largest : percent;
  return `${shown.toLocaleString('en', { maximumFractionDigits: digits })} %`;
}

/** Three significant digits below a thousand, whole above: 0.0625 → "0.0625", 1234.5 → "1,235". */
export function amount(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return NOTHING;
  const text =
    Math.abs(value) >= 1000
      ? count(Math.abs(value))
      : Math.abs(value).toLocaleString('en', { maximumSignificantDigits: 3 });
  return value < 0 && text !== '0' ? `−${text}` : text;
}

/** 1234.5, "USD" → "1,235 USD"; cents are told below a hundred. */
export function money(value: number | null | undefined, currency: string): string {
  if (value == null || !Number.isFinite(value)) return NOTHING;
  const size = Math.abs(value);
  const text = size >= 100 ? count(Math.round(size)) : size.toLocaleString('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  const sign = value < 0 && text !== '0.00' ? '−' : '';
  return `${sign}${text} ${currency}`.trim();
}

export function milliseconds(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return NOTHING;
  if (value < 1) return `${trimmed(value * 1000, 0)} µs`;
  if (value < 1000) return `${trimmed(value, value >= 100 ? 0 : value >= 10 ? 1 : 2)} ms`;
  return `${trimmed(value / 1000, 2)} s`;
}

/** "4 blocks", "1 block". */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** 93784 → "1 d 2 h"; the two largest parts. */
export function duration(seconds: number | null | undefined): string {
  if (seconds == null || !Number.isFinite(seconds)) return NOTHING;
  const total = Math.max(0, Math.floor(seconds));
  const parts: [number, string][] = [
    [Math.floor(total / 86_400), 'd'],
    [Math.floor(total / 3600) % 24, 'h'],
    [Math.floor(total / 60) % 60, 'min'],
    [total % 60, 's'],
  ];
  const first = parts.findIndex(([amount]) => amount > 0);
  if (first === -1) return '0 s';
  return parts
    .slice(first, first + 2)
    .filter(([amount]) => amount > 0)
    .map(([amount, unit]) => `${amount} ${unit}`)
    .join(' ');
}
