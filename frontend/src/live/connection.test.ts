// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { LiveConnection } from './connection';
import type { LiveData } from './protocol';

class FakeSocket {
  readyState = 0;
  sent: { op: string; topics: string[] }[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;

  send(text: string) {
    this.sent.push(JSON.parse(text) as { op: string; topics: string[] });
  }
  close() {
    this.readyState = 3;
  }
  accept() {
    this.readyState = 1;
    this.onopen?.();
  }
  fail() {
    this.readyState = 3;
    this.onclose?.();
  }
  deliver(part: object) {
    this.onmessage?.({ data: JSON.stringify({ topic: 'overview', ...part }) });
  }
  ops() {
    return this.sent.map((frame) => frame.op);
  }
}

let sockets: FakeSocket[];
let received: LiveData[];
let gap: boolean;
let connection: LiveConnection;

const latest = () => sockets.at(-1) as FakeSocket;

beforeEach(() => {
  vi.useFakeTimers();
  sockets = [];
  received = [];
  gap = false;
  connection = new LiveConnection(
    'ws://test/ws/live/',
    ['overview'],
    {
      onData: (message) => {
        received.push(message);
        return gap;
      },
      onRestart: () => undefined,
    },
    {
      open: () => {
        const socket = new FakeSocket();
        sockets.push(socket);
        return socket as unknown as WebSocket;
      },
      random: () => 1,
    },
  );
  connection.start();
});

afterEach(() => {
  connection.stop();
  vi.useRealTimers();
});

function goLive() {
  latest().accept();
  latest().deliver({ kind: 'snapshot', seq: 1, data: { a: 1 } });
}

describe('LiveConnection', () => {
  it('subscribes when open and is subscribed when answered', () => {
    latest().accept();
    expect(latest().sent).toEqual([{ op: 'subscribe', topics: ['overview'] }]);
    expect(connection.getSnapshot()).toMatchObject({ socket: 'open', subscribed: false });
    latest().deliver({ kind: 'snapshot', seq: 1, data: { a: 1 } });
    expect(connection.getSnapshot().subscribed).toBe(true);
    expect(received).toHaveLength(1);
  });

  it('asks for a snapshot after a gap, but not in a loop', () => {
    goLive();
    gap = true;
    vi.setSystemTime(100_000);
    latest().deliver({ kind: 'change', seq: 5, data: { a: 1 } });
    latest().deliver({ kind: 'change', seq: 9, data: { a: 1 } });
    expect(latest().ops()).toEqual(['subscribe', 'unsubscribe', 'subscribe']);
  });

  it('unsubscribes on pause, shows nothing meanwhile, and starts anew on resume', () => {
    goLive();
    connection.setPaused(true);
    latest().deliver({ kind: 'change', seq: 2, data: { a: 2 } });
    expect(received).toHaveLength(1);
    connection.setPaused(false);
    expect(latest().ops()).toEqual(['subscribe', 'unsubscribe', 'subscribe']);
  });

  it('rests while the tab is hidden, also across a reconnect', () => {
    goLive();
    connection.setHidden(true);
    latest().fail();
    vi.advanceTimersByTime(600);
    latest().accept();
    expect(latest().sent).toEqual([]);
    connection.setHidden(false);
    expect(latest().ops()).toEqual(['subscribe']);
  });

  it('comes back with growing waits', () => {
    latest().fail();
    vi.advanceTimersByTime(499);
    expect(sockets).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect(sockets).toHaveLength(2);
    latest().fail();
    vi.advanceTimersByTime(999);
    expect(sockets).toHaveLength(2);
    vi.advanceTimersByTime(1);
    expect(sockets).toHaveLength(3);
  });

  it('gives up a socket that fell silent', () => {
    goLive();
    vi.advanceTimersByTime(12_000);
    expect(latest().ops()).toEqual(['subscribe', 'unsubscribe', 'subscribe']);
    vi.advanceTimersByTime(5_000);
    expect(connection.getSnapshot().socket).toBe('closed');
    vi.advanceTimersByTime(500);
    expect(sockets).toHaveLength(2);
  });

  it('keeps the reason of a refused topic', () => {
    latest().accept();
    latest().deliver({ kind: 'error', code: 'permission_denied', message: 'viewers only' });
    expect(connection.getSnapshot()).toMatchObject({ refusal: 'viewers only', subscribed: false });
  });

  it('knows which topics are pushed, and asks again for one that could not be read', () => {
    goLive();
    latest().deliver({ topic: 'alerts', kind: 'snapshot', seq: 1, data: { a: 1 } });
    expect(connection.getSnapshot().topics).toEqual(['alerts', 'overview']);
    latest().deliver({ topic: 'alerts', kind: 'error', code: 'service_not_ready', message: 'not now' });
    expect(connection.getSnapshot()).toMatchObject({ topics: ['overview'], subscribed: true, refusal: 'not now' });
    vi.advanceTimersByTime(5_000);
    expect(latest().sent.at(-1)).toEqual({ op: 'subscribe', topics: ['alerts'] });
    latest().deliver({ topic: 'alerts', kind: 'snapshot', seq: 2, data: { a: 1 } });
    expect(connection.getSnapshot()).toMatchObject({ topics: ['alerts', 'overview'], refusal: null });
  });

  it('does not come back after stop', () => {
    goLive();
    connection.stop();
    vi.advanceTimersByTime(60_000);
    expect(sockets).toHaveLength(1);
    expect(connection.getSnapshot().socket).toBe('idle');
  });
});
