import { describe, expect, it } from 'vitest';

import type { AlertsPicture } from '../../api/types';
import { bellWords, figureOf, ruleTitle, subjectPage, worst } from './severity';

const picture = (critical: number, warning: number, info: number): AlertsPicture => ({
  counts: { critical, warning, info },
  firing: [],
});

describe('the bell', () => {
  it('says how many fire and how severe they are', () => {
    expect(bellWords(picture(1, 2, 0))).toBe('3 alerts firing: 1 critical, 2 warning');
    expect(bellWords(picture(0, 0, 1))).toBe('1 alert firing: 1 info');
    expect(bellWords(picture(0, 0, 0))).toBe('Alerts: none is firing');
    expect(bellWords(undefined)).toBe('Alerts: not known');
  });

  it('takes the colour of the most severe', () => {
    expect(worst(picture(0, 2, 5))).toBe('warning');
    expect(worst(picture(0, 0, 0))).toBeNull();
  });
});

describe('an alert', () => {
  it('shows its figure in its unit', () => {
    expect(figureOf({ value: 0.951, unit: 'ratio' })).toBe('95.1 %');
    expect(figureOf({ value: 90, unit: 'seconds' })).toBe('1 min 30 s');
    expect(figureOf({ value: 1, unit: 'nodes' })).toBe('1 node');
    expect(figureOf({ value: null, unit: 'nodes' })).toBe('');
    expect(figureOf({ value: 3, unit: '' })).toBe('');
  });

  it('leads to its subject', () => {
    expect(subjectPage({ subject_kind: 'storage' })).toBe('/storages/$name');
    expect(subjectPage({ subject_kind: 'platform' })).toBeNull();
    expect(ruleTitle('storage_nearly_full')).toBe('Storage nearly full');
  });
});
