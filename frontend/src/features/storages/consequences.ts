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

function listed(names: readonly string[]): string {
  const shown = names.slice(0, 5).join(', ');
  return names.length > 5 ? `${shown} and ${names.length - 5} more` : shown;
}
