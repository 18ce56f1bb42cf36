import { describe, expect, it } from 'vitest';

import type { HistoryPoint, Overview } from '../api/types';
import { parseMessage, type LiveData } from './protocol';
import { appendPoint, applyMessage, emptyTopic, HISTORY_MS } from './topic';

const point = (seconds: number, requests = 1): HistoryPoint => ({
  at: new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString(),
  requests_per_second: requests,
  requested_blocks: 10,
  hit_blocks: 5,
  used_bytes: 100,
});

function message(kind: 'snapshot' | 'change', seq: number, seconds: number, part: object = {}): LiveData {
  const data = { requested_blocks: seq, ...part } as Partial<Overview>;
  return { topic: 'overview', kind, seq, at: point(seconds).at, data };
}

const started = applyMessage(emptyTopic, message('snapshot', 7, 0, { history: [point(0)] })).state;

describe('applyMessage', () => {
  it('starts with a snapshot', () => {
    expect(started).toMatchObject({ seq: 7, data: { requested_blocks: 7, history: [point(0)] } });
  });

  it('asks for a snapshot when a change comes first', () => {
    expect(applyMessage(emptyTopic, message('change', 8, 1))).toEqual({
      state: emptyTopic,
      applied: false,
      needsSnapshot: true,
    });
  });

  it('applies the change that follows on and appends its history point', () => {
    const step = applyMessage(started, message('change', 8, 2, { history_point: point(2) }));
    expect(step).toMatchObject({ applied: true, needsSnapshot: false });
    expect(step.state.data?.history).toEqual([point(0), point(2)]);
    expect(step.state.data?.requested_blocks).toBe(8);
    expect(step.state.data).not.toHaveProperty('history_point');
  });

  it('keeps history when a change has no point', () => {
    expect(applyMessage(started, message('change', 8, 1)).state.data?.history).toEqual([point(0)]);
  });

  it('shows the picture after a gap and asks for what was missed', () => {
    const step = applyMessage(started, message('change', 11, 8));
    expect(step).toMatchObject({ applied: true, needsSnapshot: true, state: { seq: 11 } });
  });

  it('drops a message that came twice or late', () => {
    const { state } = applyMessage(started, message('change', 8, 2));
    for (const old of [message('change', 8, 2), message('change', 7, 0)]) {
      expect(applyMessage(state, old)).toEqual({ state, applied: false, needsSnapshot: false });
    }
  });

  it('follows a sender that restarted its numbers', () => {
    const step = applyMessage(started, message('change', 1, 30));
    expect(step).toMatchObject({ applied: true, needsSnapshot: true, state: { seq: 1 } });
  });

  it('lets a snapshot replace whatever was there', () => {
    const step = applyMessage(started, message('snapshot', 2, 60, { history: [point(60)] }));
    expect(step.state).toMatchObject({ seq: 2, data: { history: [point(60)] } });
  });
});

describe('appendPoint', () => {
  it('replaces a point of the same instant', () => {
    expect(appendPoint([point(0, 1)], point(0, 9))).toEqual([point(0, 9)]);
  });

  it('ignores a point older than the last', () => {
    expect(appendPoint([point(4)], point(2))).toEqual([point(4)]);
  });

  it('forgets what left the window', () => {
    const window = HISTORY_MS / 1000;
    expect(appendPoint([point(0), point(4)], point(window + 2))).toEqual([point(4), point(window + 2)]);
  });
});

describe('parseMessage', () => {
  it('reads data and refusals, nothing else', () => {
    expect(parseMessage(JSON.stringify(message('change', 3, 1)))).toMatchObject({ kind: 'change', seq: 3 });
    expect(parseMessage('{"topic":"overview","kind":"error","code":"permission_denied","message":"no"}')).toEqual({
      topic: 'overview',
      kind: 'error',
      code: 'permission_denied',
      message: 'no',
    });
    for (const frame of ['', '[]', 'null', '{"kind":"change"}', '{"topic":"a","kind":"other","seq":1}', 5]) {
      expect(parseMessage(frame)).toBeNull();
    }
  });
});
