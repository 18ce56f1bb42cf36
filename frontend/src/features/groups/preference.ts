import type { InstanceGroup } from '../../api/types';

const TYPES: Record<string, string> = {
  '3fs': '3FS',
  mooncake: 'Mooncake',
  nfs: 'NFS',
  tair_mempool: 'Tair mempool',
  tair_mempool_ssd: 'Tair mempool on SSD',
  vcns_3fs: 'VCNS 3FS',
};

/** `prefer_x` falls back to the other candidates, `always_x` fails without one of its type. */
export function preferenceText(strategy: InstanceGroup['prefer_strategy']): string {
  const [, verb, type] = /^(prefer|always)_(.+)$/.exec(strategy) ?? [];
  if (!verb || !type) return 'no type preferred';
  const name = TYPES[type] ?? type;
  return verb === 'always' ? `${name} only` : `${name} first`;
}
