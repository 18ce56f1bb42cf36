import { describe, expect, it } from 'vitest';

import { contrast } from './contrast';
import { chartSeries, palettes, type Palette, type ThemeName } from './tokens';

const themes: ThemeName[] = ['light', 'dark'];
const inks = ['text', 'muted', 'accent', 'ok', 'warn', 'critical', 'info', 'writing', 'serving', 'deleting'] as const;
const surfaces = ['surface0', 'surface1', 'surface2'] as const;
const softPairs: [keyof Palette, keyof Palette][] = [
  ['accent', 'accentSoft'],
  ['ok', 'okSoft'],
  ['warn', 'warnSoft'],
  ['critical', 'criticalSoft'],
  ['info', 'infoSoft'],
  ['onAccent', 'accentFill'],
  ['onAccent', 'criticalFill'],
];

describe.each(themes)('%s theme', (theme) => {
  const palette = palettes[theme];

  it.each(inks)('writes %s with AA contrast on every surface', (ink) => {
    for (const surface of surfaces) {
      expect(contrast(palette[ink], palette[surface])).toBeGreaterThanOrEqual(4.5);
    }
  });

  it.each(softPairs)('writes %s with AA contrast on %s', (ink, ground) => {
    expect(contrast(palette[ink], palette[ground])).toBeGreaterThanOrEqual(4.5);
  });

  it('draws chart series that stand out from the panel', () => {
    for (const colour of chartSeries[theme]) {
      expect(contrast(colour, palette.surface1)).toBeGreaterThanOrEqual(3);
    }
  });
});
