import type { Storage } from '../../api/types';
import { bytes, plural } from '../../lib/format';

export type StorageVerb = 'enable' | 'disable' | 'drain' | 'undrain';

/** What a decision about a storage means, in its own numbers. */
export function consequencesOf({ name, usage, groups, health }: Storage, verb: StorageVerb): string[] {
  const held = usage ? `${plural(usage.blocks, 'block')} (${bytes(usage.used_bytes)})` : 'The blocks (not counted now)';
  const losing =
    groups.length === 0
      ? 'No group names it as a candidate.'
      : `${plural(groups.length, 'group')} can write no new blocks to it: ${listed(groups)}.`;
  switch (verb) {
    case 'disable':
      return [
        `${held} on ${name} are no longer served: engines see them as misses.`,
        losing,
        'Nothing is deleted. Enabling it again serves the same blocks.',
      ];
    case 'drain':
      return [`${held} on ${name} stay readable until they are reclaimed.`, losing, 'It can be taken back at any time.'];
    case 'enable':
      return [
        `${held} on ${name} are served again.`,
        groups.length === 0 ? 'No group names it as a candidate.' : `Written to again by ${listed(groups)}.`,
        ...(health.state === 'failing' ? [`The last check failed: ${health.message || 'no message'}`] : []),
      ];
    case 'undrain':
      return [groups.length === 0 ? 'No group names it as a candidate.' : `Written to again by ${listed(groups)}.`];
  }
}

/** What removing a storage means; with `force` its blocks go first. */
export function removalConsequences({ name, usage, groups }: Storage, force: boolean): string[] {
  const named = groups.length === 0 ? 'No group names it as a candidate.' : `${plural(groups.length, 'group')} will miss this candidate: ${listed(groups)}.`;
  if (!usage) return ['How many blocks lie on it is not known now.', named];
  if (usage.blocks === 0) return [`No block lies on ${name}: it goes at once.`, named];
  const held = `${plural(usage.blocks, 'block')} (${bytes(usage.used_bytes)})`;
  if (!force) return [`${held} lie on ${name}: it is not removed before they are.`, named];
  return [`${held} on ${name} are misses at once and are deleted; the storage goes with the last of them.`, named];
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, 5).join(', ');
  return names.length > 5 ? `${shown} and ${names.length - 5} more` : shown;
}
