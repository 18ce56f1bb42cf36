import type { Overview } from '../../api/types';
import { bytes, exact, exactBytes, NOTHING, rate, share } from '../../lib/format';

export type FigurePlace = '/storages' | '/groups' | '/instances';

export interface FigureText {
  label: string;
  value: string;
  exact?: string;
  detail: string;
  to?: FigurePlace;
}

/** The eight figures, in the order in which they are read. Their names are a contract. */
export function figuresOf(overview: Overview): FigureText[] {
  const { used_bytes: used, reserved_bytes: reserved, quota_bytes: quota } = overview;
  // What waits for its deletion is part of what is used.
  const held = used + reserved;
  return [
    {
      label: 'Requests per second',
      value: rate(overview.requests_per_second),
      detail: 'all calls, last 10 s',
    },
    {
      label: 'Hit rate',
      value: share(overview.hit_rate),
      detail: overview.hit_rate === null ? 'nothing requested, last 5 min' : 'of blocks, last 5 min',
    },
    { label: 'Requested blocks', value: exact(overview.requested_blocks), detail: 'last 5 min' },
    { label: 'Hit blocks', value: exact(overview.hit_blocks), detail: 'last 5 min' },
    { label: 'Used', value: bytes(used), exact: exactBytes(used), detail: exactBytes(used), to: '/groups' },
    {
      label: 'Quota',
      value: bytes(quota),
      exact: exactBytes(quota),
      to: '/groups',
      detail: quota > 0 ? `${share(held / quota)} taken` : 'no group has one',
    },
    {
      label: 'Open write sessions',
      value: exact(overview.open_write_sessions),
      to: '/instances',
      detail: reserved > 0 ? `${bytes(reserved)} reserved` : 'nothing reserved',
    },
    {
      label: 'Healthy storages',
      value: overview.storages_total > 0 ? `${exact(overview.storages_healthy)} of ${exact(overview.storages_total)}` : NOTHING,
      to: '/storages',
      detail: healthDetail(overview),
    },
  ];
}

function healthDetail({ storages_healthy: healthy, storages_total: total }: Overview): string {
  if (total === 0) return 'none configured';
  const missing = total - healthy;
  return missing === 0 ? 'all are served' : `${exact(missing)} not served`;
}

const STATE_WORD = { ok: 'All is well', degraded: 'Degraded', down: 'Down' } as const;

/** "Degraded: storage nfs_02 is unavailable." */
export function verdictSentence({ verdict, storages_total, groups_total, instances_total }: Overview): string {
  if (verdict.reasons.length > 0) return `${STATE_WORD[verdict.state]}: ${verdict.reasons.join(' ')}`;
  if (storages_total === 0) return `${STATE_WORD[verdict.state]}, but no storage is configured yet.`;
  const parts = [
    counted(instances_total, 'instance'),
    counted(groups_total, 'group'),
    counted(storages_total, 'storage'),
  ];
  return `${STATE_WORD[verdict.state]}: ${parts.join(', ')}.`;
}

function counted(value: number, one: string): string {
  return `${exact(value)} ${one}${value === 1 ? '' : 's'}`;
}
