/** How the messages of one topic become its current picture. Pure: the socket is elsewhere. */

import type { HistoryPoint, Overview } from '../api/types';
import type { LiveData, OverviewChange } from './protocol';

export const HISTORY_MS = 10 * 60 * 1000;

export interface TopicState {
  /** Number of the last message applied; null until a snapshot came on this subscription. */
  seq: number | null;
  at: string;
  data: Overview | null;
}

export const emptyTopic: TopicState = { seq: null, at: '', data: null };

export interface Step {
  state: TopicState;
  /** The message became (part of) the picture. */
  applied: boolean;
  /** Something between was missed: ask for a snapshot. */
  needsSnapshot: boolean;
}

/**
 * A snapshot replaces all. A change that follows on is applied. After a gap a change still is the
 * whole picture, so figures go on moving, but its history has a hole: a snapshot is asked for. A
 * number that goes backwards is an old message, unless its time says that the sender restarted.
 */
export function applyMessage(state: TopicState, message: LiveData): Step {
  if (message.kind === 'snapshot') {
    const data = withHistory(message.data as OverviewChange, []);
    return { state: { seq: message.seq, at: message.at, data }, applied: true, needsSnapshot: false };
  }
  if (state.data === null || state.seq === null) {
    return { state, applied: false, needsSnapshot: true };
  }
  const isNext = message.seq === state.seq + 1;
  if (!isNext && message.seq <= state.seq && !isLater(message.at, state.at)) {
    return { state, applied: false, needsSnapshot: false };
  }
  const data = withHistory(message.data as OverviewChange, state.data.history);
  return { state: { seq: message.seq, at: message.at, data }, applied: true, needsSnapshot: !isNext };
}

function isLater(a: string, b: string): boolean {
  return Date.parse(a) > Date.parse(b);
}

function withHistory(change: OverviewChange, known: readonly HistoryPoint[]): Overview {
  const { history, history_point: point, ...figures } = change;
  return { ...figures, history: history ?? appendPoint(known, point) };
}

/** Adds the newest point once, and forgets those that left the window. */
export function appendPoint(
  history: readonly HistoryPoint[],
  point: HistoryPoint | null | undefined,
): HistoryPoint[] {
  if (!point) return [...history];
  const time = Date.parse(point.at);
  const last = history.at(-1);
  const lastTime = last ? Date.parse(last.at) : Number.NEGATIVE_INFINITY;
  if (Number.isNaN(time) || time < lastTime) return [...history];
  const before = time === lastTime ? history.slice(0, -1) : history;
  return [...before.filter((old) => Date.parse(old.at) > time - HISTORY_MS), point];
}
