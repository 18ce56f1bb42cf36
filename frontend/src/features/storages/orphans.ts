import type { OrphanRun } from '../../api/types';
import type { Tone } from '../../components/status/StatusBadge';

export const ORPHAN_STATES: Record<OrphanRun['state'], { tone: Tone; word: string }> = {
  queued: { tone: 'unknown', word: 'Waiting' },
  running: { tone: 'info', word: 'Searching' },
  done: { tone: 'ok', word: 'Done' },
  failed: { tone: 'critical', word: 'Failed' },
  cancelled: { tone: 'off', word: 'Stopped' },
};

export function isUnderWay(run: OrphanRun | undefined): boolean {
  return run?.state === 'queued' || run?.state === 'running';
}

/** What a search is for or came to, in a sentence. */
export function orphansWords({ state, dry_run: isDry, reason, figures }: OrphanRun): string {
  if (state === 'failed') return reason || 'The search failed.';
  const doing = isDry ? 'a search that deletes nothing' : 'a search that deletes what it finds';
  if (state === 'queued') return `${doing}, by the next free worker.`;
  if (state === 'running') return `${doing}: pass ${figures.pass_number} of ${figures.passes}.`;
  if (state === 'cancelled') return isDry ? 'before its end.' : 'before its end; what was deleted by then is gone.';
  if (figures.orphans === 0) return 'no orphan was found.';
  return isDry ? 'nothing was deleted.' : 'what was found is deleted.';
}
