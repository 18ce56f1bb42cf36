import {
  createTheme,
  type CSSVariablesResolver,
  type MantineColorsTuple,
  type MantineThemeOverride,
} from '@mantine/core';

import { fontSize, fonts, palettes, radius, rowHeight, spacing, type Palette } from './tokens';

const px = (value: number) => `${value / 16}rem`;

const accent: MantineColorsTuple = [
  '#eef2fe', '#dbe4fc', '#b5c6f8', '#8ba6f4', '#668af0', '#4d77ee', '#3f66dd', '#2b50c8', '#2145ad', '#163a97',
];

/** Mantine's greys of the dark theme, in the hue of our surfaces. */
const dark: MantineColorsTuple = [
  '#e7ebf1', '#c3ccd8', '#9ba7b6', '#74808f', '#3a4553', '#29323f', '#1a212b', '#151b24', '#10151d', '#0d1117',
];

export const theme: MantineThemeOverride = createTheme({
  primaryColor: 'accent',
  primaryShade: { light: 7, dark: 6 },
  colors: { accent, dark },
  fontFamily: fonts.sans,
  fontFamilyMonospace: fonts.mono,
  headings: { fontFamily: fonts.sans, fontWeight: '650' },
  defaultRadius: radius,
  fontSizes: {
    xs: px(fontSize.xs),
    sm: px(fontSize.sm),
    md: px(fontSize.md),
    lg: px(fontSize.lg),
    xl: px(fontSize.xl),
  },
  spacing: {
    xs: px(spacing.xs),
    sm: px(spacing.sm),
    md: px(spacing.md),
    lg: px(spacing.lg),
    xl: px(spacing.xl),
  },
  cursorType: 'pointer',
  respectReducedMotion: true,
  components: {
    Button: { defaultProps: { size: 'xs' } },
    ActionIcon: { defaultProps: { variant: 'subtle', color: 'gray' } },
    Tooltip: { defaultProps: { openDelay: 250, multiline: true, maw: 340, withArrow: true } },
    TextInput: { defaultProps: { size: 'xs' } },
    PasswordInput: { defaultProps: { size: 'sm' } },
    NumberInput: { defaultProps: { size: 'xs' } },
    Select: { defaultProps: { size: 'xs' } },
    Modal: {
      defaultProps: { centered: true, padding: 'lg', transitionProps: { duration: 120 }, closeButtonProps: { 'aria-label': 'Close' } },
      styles: { title: { fontWeight: 650, fontSize: px(fontSize.lg) } },
    },
  },
});

const kebab = (name: string) => name.replace(/[A-Z0-9]+/g, (part) => `-${part.toLowerCase()}`);

function paletteVariables(palette: Palette): Record<string, string> {
  const own = Object.fromEntries(
    Object.entries(palette).map(([name, value]) => [`--k-${kebab(name)}`, String(value)]),
  );
  return {
    ...own,
    '--mantine-color-body': palette.surface1,
    '--mantine-color-text': palette.text,
    '--mantine-color-dimmed': palette.muted,
    '--mantine-color-anchor': palette.accent,
    '--mantine-color-error': palette.critical,
    '--mantine-color-placeholder': palette.muted,
    '--mantine-color-default': palette.surface1,
    '--mantine-color-default-hover': palette.surface2,
    '--mantine-color-default-border': palette.border2,
    '--mantine-color-disabled': palette.surface2,
    '--mantine-color-disabled-color': palette.muted,
    '--mantine-color-disabled-border': palette.border1,
  };
}

/** The tokens as CSS variables `--k-*`; Mantine's own colours are pointed at the same values. */
export const variablesResolver: CSSVariablesResolver = () => ({
  variables: {
    '--k-radius': `${radius}px`,
    '--k-row': `${rowHeight}px`,
    '--k-sans': fonts.sans,
    '--k-mono': fonts.mono,
    ...Object.fromEntries(Object.entries(spacing).map(([name, value]) => [`--k-space-${name}`, `${value}px`])),
    ...Object.fromEntries(Object.entries(fontSize).map(([name, value]) => [`--k-font-${name}`, px(value)])),
  },
  light: paletteVariables(palettes.light),
  dark: paletteVariables(palettes.dark),
});
