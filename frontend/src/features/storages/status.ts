import type { Storage } from '../../api/types';
import type { Tone } from '../../components/status/StatusBadge';

export interface StorageStatus {
  tone: Tone;
  word: string;
  hint: string;
}

/** The one state of a storage. What an operator decided is said before what a check found. */
export function storageStatus({ enabled, draining, leaving, health }: Storage): StorageStatus {
  if (leaving) {
    return { tone: 'warn', word: 'Leaving', hint: 'Neither read from nor written to: its blocks are removed, then it goes.' };
  }
  if (!enabled) {
    return { tone: 'off', word: 'Disabled', hint: 'Neither read from nor written to, by decision of an operator.' };
  }
  if (health.state === 'failing') {
    return { tone: 'critical', word: 'Unreachable', hint: health.message || 'The last health check failed.' };
  }
  if (draining) {
    return { tone: 'info', word: 'Draining', hint: 'Takes no new blocks; those it holds are still served.' };
  }
  if (health.state === 'unknown') {
    return { tone: 'unknown', word: 'Unknown', hint: 'Not checked yet.' };
  }
  if (health.full) {
    return { tone: 'warn', word: 'Full', hint: health.full_reason || 'Takes no new blocks; those it holds are still served.' };
  }
  return { tone: 'ok', word: 'Enabled', hint: 'Served and open for new blocks.' };
}

export const TYPE_NAMES: Record<string, { name: string; hint: string }> = {
  nfs: { name: 'NFS', hint: 'Files below a mounted directory' },
  hf3fs: { name: '3FS', hint: 'Slot files on a mounted 3FS' },
  vcns_hf3fs: { name: 'VCNS 3FS', hint: '3FS reached through VCNS' },
  mooncake: { name: 'Mooncake', hint: 'Objects of a Mooncake store' },
  tair_mempool: { name: 'Tair mempool', hint: 'Ranges of a Tair memory pool' },
  dummy: { name: 'Dummy', hint: 'A local directory, for trials' },
};

export function typeName(type: string): string {
  return TYPE_NAMES[type]?.name ?? type;
}

const SECRET = /password|secret|token|access_key|credential/i;

/** Rows of a spec; what looks like a secret is not put on the screen. */
export function specRows(spec: Record<string, unknown>, prefix = ''): { name: string; value: string }[] {
  return Object.entries(spec).flatMap(([key, value]) => {
    const name = prefix + key;
    if (value !== null && typeof value === 'object' && !Array.isArray(value)) {
      return specRows(value as Record<string, unknown>, `${name}.`);
    }
    if (SECRET.test(key) && value) return [{ name, value: '••••••' }];
    if (value === '' || value === null || value === undefined) return [{ name, value: '' }];
    return [{ name, value: typeof value === 'string' ? value : JSON.stringify(value) }];
  });
}
