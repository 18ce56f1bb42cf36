import { describe, expect, it } from 'vitest';

import type { OrphanRun } from '../../api/types';
import { isUnderWay, orphansWords } from './orphans';

const run = (state: OrphanRun['state'], dry_run: boolean, orphans = 0): OrphanRun =>
  ({ state, dry_run, reason: '', figures: { orphans, passes: 2, pass_number: 1 } }) as unknown as OrphanRun;

describe('a search for orphans', () => {
  it('says whether it deletes', () => {
    expect(orphansWords(run('running', true))).toBe('a search that deletes nothing: pass 1 of 2.');
    expect(orphansWords(run('done', true, 3))).toBe('nothing was deleted.');
    expect(orphansWords(run('done', false, 3))).toBe('what was found is deleted.');
    expect(orphansWords(run('done', true))).toBe('no orphan was found.');
    expect(orphansWords({ ...run('failed', true), reason: 'it hangs' })).toBe('it hangs');
  });

  it('is under way until it ended', () => {
    expect([undefined, run('queued', true), run('running', true), run('done', true)].map(isUnderWay)).toEqual([
      false,
      true,
      true,
      false,
    ]);
  });
});
