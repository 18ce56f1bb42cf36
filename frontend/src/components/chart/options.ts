import type uPlot from 'uplot';

import { clock } from '../../lib/time';
import { chartSeries, fonts, palettes, type ThemeName } from '../../theme/tokens';

export interface SeriesStyle {
  label: string;
  /** Index into the theme's eight chart colours. */
  colour: number;
  fill?: boolean;
}

export interface ChartLook {
  theme: ThemeName;
  series: readonly SeriesStyle[];
  format: (value: number) => string;
  /** A fixed top of the axis, for example 1 for shares. */
  top?: number | undefined;
  /** Ticks at powers of two, for bytes. */
  binary?: boolean | undefined;
  syncKey: string;
  onCursor: (index: number | null) => void;
}

/** The window never is narrower than this, so that two points do not make a chart. */
const NARROWEST_SECONDS = 120;

export function chartOptions(look: ChartLook, width: number, height: number): uPlot.Options {
  const palette = palettes[look.theme];
  const font = `11px ${fonts.sans}`;
  const axis = { stroke: palette.muted, font, ticks: { show: false }, border: { show: false } };
  return {
    width,
    height,
    padding: [8, 18, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: false, y: false },
      points: { size: 6 },
      sync: { key: look.syncKey },
    },
    hooks: { setCursor: [(plot) => look.onCursor(plot.cursor.idx ?? null)] },
    scales: {
      x: { time: true, range: (plot) => timeRange(plot.data[0]) },
      y: { range: (_plot, _min, max) => [0, look.top ?? (look.binary ? binaryTop(max) : niceTop(max))] },
    },
    axes: [
      { ...axis, grid: { show: false }, space: 70, size: 22, gap: 4, values: (_plot, ticks) => ticks.map(clockOfTick) },
      {
        ...axis,
        size: 58,
        space: 34,
        ...(look.binary ? { incrs: BINARY_STEPS } : {}),
        grid: { stroke: palette.border1, width: 1 },
        values: (_plot, ticks) => ticks.map((tick) => look.format(tick)),
      },
    ],
    series: [{}, ...look.series.map((style) => seriesOptions(style, look.theme))],
  };
}

function seriesOptions({ label, colour, fill }: SeriesStyle, theme: ThemeName): uPlot.Series {
  const stroke = chartSeries[theme][colour] ?? palettes[theme].accent;
  return {
    label,
    stroke,
    width: 1.75,
    points: { show: false },
    ...(fill ? { fill: `${stroke}1f` } : {}),
  };
}

/** From the times themselves: the bounds that uPlot offers span a whole day when there is one point. */
export function timeRange(times: ArrayLike<number>, now = Date.now() / 1000): [number, number] {
  const last = times[times.length - 1] ?? now;
  return [Math.min(times[0] ?? last, last - NARROWEST_SECONDS), last];
}

function clockOfTick(tick: number): string {
  const text = clock(tick * 1000);
  return text.endsWith(':00') ? text.slice(0, 5) : text;
}

const BINARY_STEPS = Array.from({ length: 62 }, (_, power) => 2 ** power);

/** The next of 1, 1.25, 1.5, 1.75 times a power of two: bytes then have round ticks. */
export function binaryTop(highest: number | null): number {
  if (highest === null || highest <= 0) return 1024;
  const wanted = highest * 1.04;
  const magnitude = 2 ** Math.floor(Math.log2(wanted));
  const factor = [1, 1.25, 1.5, 1.75].find((each) => each * magnitude >= wanted) ?? 2;
  return factor * magnitude;
}

/** A round number a little above the highest value; one while there is nothing. */
export function niceTop(highest: number | null): number {
  if (highest === null || highest <= 0) return 1;
  const wanted = highest * 1.08;
  const magnitude = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((factor) => factor * magnitude >= wanted) ?? 10;
  return step * magnitude;
}
