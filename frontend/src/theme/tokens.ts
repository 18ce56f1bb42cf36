/**
 * The design language as data. `variables.ts` mirrors it to CSS variables and charts read it
 * directly, so that a colour exists in one place. Colours are semantic only.
 */

export type ThemeName = 'light' | 'dark';

export const spacing = { xs: 4, sm: 8, md: 12, lg: 16, xl: 24, xxl: 32 } as const;
export const radius = 6;
export const rowHeight = 32;
export const fontSize = { xs: 12, sm: 13, md: 14, lg: 16, xl: 20, xxl: 28 } as const;

export const fonts = {
  sans: "'Inter Variable', system-ui, -apple-system, 'Segoe UI', sans-serif",
  mono: "'JetBrains Mono Variable', ui-monospace, 'SFMono-Regular', Menlo, monospace",
} as const;

export interface Palette {
  /** The page, a panel on it, an inset or hovered part of a panel. */
  surface0: string;
  surface1: string;
  surface2: string;
  /** Lines between parts, and outlines of controls. */
  border1: string;
  border2: string;
  text: string;
  muted: string;
  accent: string;
  /** Fill of the primary button, with `onAccent` on it. */
  accentFill: string;
  onAccent: string;
  accentSoft: string;
  /** Filled part of meters. */
  bar: string;
  ok: string;
  okSoft: string;
  warn: string;
  warnSoft: string;
  critical: string;
  criticalFill: string;
  criticalSoft: string;
  info: string;
  infoSoft: string;
  writing: string;
  serving: string;
  deleting: string;
  shadow: string;
}

export const palettes: Record<ThemeName, Palette> = {
  light: {
    surface0: '#f4f6f9',
    surface1: '#ffffff',
    surface2: '#eceff4',
    border1: '#dde2ea',
    border2: '#b9c2cf',
    text: '#131a24',
    muted: '#535f70',
    accent: '#2b50c8',
    accentFill: '#2b50c8',
    onAccent: '#ffffff',
    accentSoft: '#e6ecfc',
    bar: '#3f66d9',
    ok: '#12703f',
    okSoft: '#def3e6',
    warn: '#865600',
    warnSoft: '#fdf0d2',
    critical: '#b4232b',
    criticalFill: '#b4232b',
    criticalSoft: '#fce5e5',
    info: '#155f99',
    infoSoft: '#e0eefa',
    writing: '#6541b5',
    serving: '#12703f',
    deleting: '#9c4312',
    shadow: '0 1px 2px rgb(19 26 36 / 6%), 0 1px 1px rgb(19 26 36 / 3%)',
  },
  dark: {
    surface0: '#0d1117',
    surface1: '#151b24',
    surface2: '#1f2732',
    border1: '#29323f',
    border2: '#46525f',
    text: '#e7ebf1',
    muted: '#9ba7b6',
    accent: '#86a9ff',
    accentFill: '#3f66dd',
    onAccent: '#ffffff',
    accentSoft: '#1d2a4d',
    bar: '#5b82ee',
    ok: '#4fc98b',
    okSoft: '#12301f',
    warn: '#e9b955',
    warnSoft: '#382a0d',
    critical: '#ff8580',
    criticalFill: '#c23a3f',
    criticalSoft: '#421b1e',
    info: '#70b9f5',
    infoSoft: '#12293e',
    writing: '#b79bff',
    serving: '#4fc98b',
    deleting: '#f0935a',
    shadow: '0 1px 2px rgb(0 0 0 / 40%)',
  },
};

/** Eight series that stay apart for colour-blind readers (after Okabe and Ito), tuned per theme. */
export const chartSeries: Record<ThemeName, readonly string[]> = {
  light: ['#2b50c8', '#c2570c', '#0b7f6b', '#a03a86', '#8a6d00', '#1583b8', '#6b4a2b', '#5b6472'],
  dark: ['#86a9ff', '#f2a25c', '#45c9ae', '#e08cc6', '#e5cb4e', '#6cc5f0', '#c9a27c', '#a7b2c0'],
};

/** Watermarks look the same wherever they are drawn: high = long dashes, low = short ones. */
export const watermarkDash = { high: [6, 3], low: [2, 3] } as const;
