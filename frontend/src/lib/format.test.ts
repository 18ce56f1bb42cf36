import { describe, expect, it } from 'vitest';

import {
  amount, bytes, count, duration, exact, exactBytes, milliseconds, money, NOTHING, plural, rate, share,
} from './format';
import { absoluteTime, monthName, relativeTime, utcTime } from './time';

describe('bytes', () => {
  it.each([
    [0, '0 B'],
    [1023, '1,023 B'],
    [1024, '1 KiB'],
    [1536, '1.5 KiB'],
    [1024 ** 2 - 1, '1 MiB'],
    [10.24 * 1024 ** 3, '10.2 GiB'],
    [340 * 1024 ** 3, '340 GiB'],
    [2 * 1024 ** 4, '2 TiB'],
    [5 * 1024 ** 7, '5,120 EiB'],
    [-2048, '−2 KiB'],
  ])('%d is %s', (value, text) => expect(bytes(value)).toBe(text));

  it('says nothing for no value', () => {
    expect(bytes(null)).toBe(NOTHING);
    expect(bytes(Number.NaN)).toBe(NOTHING);
  });

  it('keeps the exact value for the tooltip', () => {
    expect(exactBytes(365_072_220_160)).toBe('365,072,220,160 bytes');
  });
});

describe('count', () => {
  it.each([
    [0, '0'],
    [9999, '9,999'],
    [10_000, '10 k'],
    [12_345, '12.3 k'],
    [999_499, '999 k'],
    [999_500, '1 M'],
    [1_234_567, '1.23 M'],
    [7_890_000_000, '7.89 G'],
  ])('%d is %s', (value, text) => expect(count(value)).toBe(text));

  it('names one block and several', () => {
    expect(plural(1, 'block')).toBe('1 block');
    expect(plural(20_000, 'block')).toBe('20 k blocks');
  });

  it('writes all digits when asked', () => expect(exact(1_234_567)).toBe('1,234,567'));
});

describe('rate', () => {
  it.each([
    [0, '0'],
    [0.126, '0.13'],
    [12.34, '12.3'],
    [1234.5, '1,235'],
    [123_456, '123 k'],
  ])('%d is %s', (value, text) => expect(rate(value)).toBe(text));
});

describe('share', () => {
  it.each([
    [0, '0 %'],
    [0.625, '62.5 %'],
    [0.9999, '99.9 %'],
    [1, '100 %'],
    [1.25, '125 %'],
  ])('%d is %s', (value, text) => expect(share(value)).toBe(text));

  it('is not zero when nothing was requested', () => expect(share(null)).toBe(NOTHING));
});

describe('milliseconds', () => {
  it.each([
    [0.42, '420 µs'],
    [1.234, '1.23 ms'],
    [45.67, '45.7 ms'],
    [1500, '1.5 s'],
  ])('%d is %s', (value, text) => expect(milliseconds(value)).toBe(text));
});

describe('duration', () => {
  it.each([
    [0, '0 s'],
    [61, '1 min 1 s'],
    [7200, '2 h'],
    [93_784, '1 d 2 h'],
  ])('%d seconds are %s', (value, text) => expect(duration(value)).toBe(text));
});

describe('times', () => {
  const now = Date.parse('2026-03-04T12:00:00Z');

  it.each([
    ['2026-03-04T11:59:58Z', 'just now'],
    ['2026-03-04T12:00:03Z', 'just now'],
    ['2026-03-04T11:59:30Z', '30 s ago'],
    ['2026-03-04T11:10:00Z', '50 min ago'],
    ['2026-03-03T11:59:00Z', '1 day ago'],
    ['2026-03-04T12:05:00Z', 'in 5 min'],
  ])('%s is %s', (iso, text) => expect(relativeTime(iso, now)).toBe(text));

  it('shows both clocks', () => {
    expect(utcTime('2026-03-04T12:03:10.123Z')).toBe('2026-03-04 12:03:10 UTC');
    expect(absoluteTime('2026-03-04T12:03:10Z')).toMatch(/^2026-03-0[345] \d\d:03:10$/);
    expect(absoluteTime(null)).toBe(NOTHING);
    expect(relativeTime('not a time', now)).toBe(NOTHING);
  });
});

describe('money', () => {
  it.each([
    [0, '0.00 USD'],
    [0.004, '0.00 USD'],
    [-0.004, '0.00 USD'],
    [12.345, '12.35 USD'],
    [-99.5, '−99.50 USD'],
    [1234.5, '1,235 USD'],
    [-45_678, '−45.7 k USD'],
  ])('%d is %s', (value, text) => expect(money(value, 'USD')).toBe(text));

  it('says nothing for no value', () => expect(money(null, 'USD')).toBe(NOTHING));
});

describe('amount', () => {
  it.each([
    [0, '0'],
    [0.06254, '0.0625'],
    [12.34, '12.3'],
    [1234.5, '1,235'],
    [-0.5, '−0.5'],
  ])('%d is %s', (value, text) => expect(amount(value)).toBe(text));
});

describe('monthName', () => {
  it('is read out', () => expect(monthName('2026-11')).toBe('November 2026'));
});
