import type { HistoryPoint, Overview } from '../api/types';

/** A change carries the newest point only; the snapshot carries the whole history. */
export type OverviewChange = Omit<Overview, 'history'> & {
  history?: HistoryPoint[];
  history_point?: HistoryPoint | null;
};

export interface LiveData {
  topic: string;
  seq: number;
  at: string;
  kind: 'snapshot' | 'change';
  data: unknown;
}

export interface LiveRefusal {
  topic: string;
  kind: 'error';
  code: string;
  message: string;
}

export type LiveMessage = LiveData | LiveRefusal;

export const OVERVIEW_TOPIC = 'overview';
export const ALERTS_TOPIC = 'alerts';
export const STORAGES_TOPIC = 'storages';

/** Reads one frame; anything that is not a message of ours is null. */
export function parseMessage(frame: unknown): LiveMessage | null {
  if (typeof frame !== 'string') return null;
  let value: unknown;
  try {
    value = JSON.parse(frame);
  } catch {
    return null;
  }
  if (typeof value !== 'object' || value === null) return null;
  const message = value as Partial<LiveData> & Partial<LiveRefusal>;
  if (typeof message.topic !== 'string') return null;
  const kind = message.kind as string | undefined;
  if (kind === 'error') {
    return { topic: message.topic, kind, code: message.code ?? 'unknown', message: message.message ?? '' };
  }
  if ((kind === 'snapshot' || kind === 'change') && typeof message.seq === 'number' && message.data) {
    return { topic: message.topic, kind, seq: message.seq, at: message.at ?? '', data: message.data };
  }
  return null;
}
