import { describe, expect, it } from 'vitest';

import { liveStatus, reconnectDelay, type LiveFacts } from './status';

const facts: LiveFacts = { socket: 'open', paused: false, subscribed: true, receivedAt: 1_000, now: 2_000 };

describe('liveStatus', () => {
  it.each<[string, Partial<LiveFacts>]>([
    ['live', {}],
    // Nothing happens on an idle platform: silence on an open socket is not staleness.
    ['live', { now: 600_000 }],
    ['paused', { paused: true, socket: 'closed' }],
    ['connecting', { socket: 'connecting', subscribed: false, receivedAt: null }],
    ['reconnecting', { socket: 'closed', subscribed: false, receivedAt: null }],
    ['reconnecting', { socket: 'closed', subscribed: false, now: 9_000 }],
    ['stale', { socket: 'closed', subscribed: false, now: 20_000 }],
    ['stale', { socket: 'open', subscribed: false, now: 20_000 }],
  ])('is %s for %o', (expected, part) => expect(liveStatus({ ...facts, ...part })).toBe(expected));
});

describe('reconnectDelay', () => {
  it('doubles up to a ceiling', () => {
    expect([0, 1, 2, 3].map((attempt) => reconnectDelay(attempt, 1))).toEqual([500, 1000, 2000, 4000]);
    expect(reconnectDelay(50, 1)).toBe(15_000);
  });

  it('never waits less than half of it', () => {
    expect(reconnectDelay(2, 0)).toBe(1000);
  });
});
