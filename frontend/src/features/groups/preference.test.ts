import { expect, it } from 'vitest';

import { preferenceText } from './preference';

it('says whether other types may take the block', () => {
  expect(preferenceText('unspecified')).toBe('no type preferred');
  expect(preferenceText('prefer_3fs')).toBe('3FS first');
  expect(preferenceText('always_tair_mempool')).toBe('Tair mempool only');
});
