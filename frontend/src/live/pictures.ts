/** Topics whose every message is the whole picture: what becomes of a message in the query cache. Pure. */

import type { Alert, AlertsPicture, Page, Storage, StorageNow, StoragesPicture } from '../api/types';
import type { LiveData } from './protocol';

export interface PictureState {
  /** Number of the last message taken; null until a snapshot came on this subscription. */
  seq: number | null;
  at: string;
}

export const noPicture: PictureState = { seq: null, at: '' };

/** Whether a message is newer than the last one. None is missed by a gap: each shows everything. */
export function isNewer(state: PictureState, message: LiveData): boolean {
  if (message.kind === 'snapshot' || state.seq === null || message.seq > state.seq) return true;
  // A number that goes backwards is an old message, unless its time says that the sender restarted.
  return Date.parse(message.at) > Date.parse(state.at);
}

/** What a poll gives, in the form of the topic. */
export function pictureOf(page: Page<Alert>): AlertsPicture {
  const counts = { critical: 0, warning: 0, info: 0 };
  for (const { severity } of page.results) counts[severity] += 1;
  return { counts, firing: page.results };
}

/** A storage as a page holds it, with what was pushed since. A write's answer is never set back. */
export function withNow(storage: Storage, now: StorageNow | undefined): Storage {
  return now === undefined || now.version < storage.version ? storage : { ...storage, ...now };
}

export function pageWithNow(page: Page<Storage>, picture: StoragesPicture): Page<Storage> {
  const byName = new Map(picture.storages.map((storage) => [storage.name, storage]));
  return { ...page, results: page.results.map((storage) => withNow(storage, byName.get(storage.name))) };
}
