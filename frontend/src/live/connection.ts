/**
 * The one WebSocket of the page. Keeps it open, keeps its topics subscribed, and hands messages on.
 * Paused or hidden it unsubscribes; what follows is a fresh snapshot, never a replay.
 */

import { parseMessage, type LiveData, type LiveMessage, type LiveRefusal } from './protocol';
import { reconnectDelay, type SocketState } from './status';

export interface LiveSnapshot {
  socket: SocketState;
  paused: boolean;
  /** Whether any topic is being pushed. */
  subscribed: boolean;
  /** The topics that are being pushed now. */
  topics: readonly string[];
  /** Why the server refuses a topic; null while it does not. */
  refusal: string | null;
}

interface Handlers {
  /** Returns true when a snapshot is needed to go on. */
  onData: (message: LiveData) => boolean;
  /** A subscription starts anew: what was known about sequence numbers is void. */
  onRestart: (topic: string) => void;
}

interface Surroundings {
  open: (url: string) => WebSocket;
  random: () => number;
}

/** An open socket that says nothing for so long is asked for a snapshot, then given up. */
const SILENCE_MS = 12_000;
const ANSWER_MS = 5_000;
/** A topic that cannot be read just now is asked for again after so long. */
const NOT_READY_MS = 5_000;
const NO_TOPICS: readonly string[] = [];
/** Lossy senders must not make us ask for snapshots in a tight loop. */
const SNAPSHOT_INTERVAL_MS = 2_000;

const NOTHING_PUSHED = { subscribed: false, topics: NO_TOPICS } as const;

export class LiveConnection {
  private socket: WebSocket | null = null;
  private attempt = 0;
  private hidden = false;
  private started = false;
  private retryTimer: ReturnType<typeof setTimeout> | undefined;
  private silenceTimer: ReturnType<typeof setTimeout> | undefined;
  private readonly refusals = new Map<string, string>();
  private readonly snapshotRequests = new Map<string, number>();
  private readonly listeners = new Set<() => void>();
  private snapshot: LiveSnapshot = {
    socket: 'idle',
    paused: false,
    subscribed: false,
    topics: NO_TOPICS,
    refusal: null,
  };

  constructor(
    private readonly url: string,
    private readonly topics: readonly string[],
    private readonly handlers: Handlers,
    private readonly around: Surroundings = { open: (url) => new WebSocket(url), random: Math.random },
  ) {}

  readonly getSnapshot = (): LiveSnapshot => this.snapshot;

  readonly listen = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  start(): void {
    if (this.started) return;
    this.started = true;
    this.connect();
  }

  stop(): void {
    this.started = false;
    clearTimeout(this.retryTimer);
    clearTimeout(this.silenceTimer);
    this.drop();
    this.refusals.clear();
    this.change({ socket: 'idle', ...NOTHING_PUSHED, refusal: null });
  }

  readonly setPaused = (paused: boolean): void => {
    if (paused === this.snapshot.paused) return;
    this.change({ paused });
    this.followAttention();
  };

  setHidden(hidden: boolean): void {
    if (hidden === this.hidden) return;
    this.hidden = hidden;
    this.followAttention();
  }

  /** Tries at once instead of at the end of the back-off: the network came back. */
  retryNow(): void {
    if (!this.started || this.socket) return;
    clearTimeout(this.retryTimer);
    this.connect();
  }

  private get wanted(): boolean {
    return !this.snapshot.paused && !this.hidden;
  }

  private followAttention(): void {
    if (this.snapshot.socket !== 'open') return;
    if (this.wanted) {
      this.subscribe();
    } else {
      clearTimeout(this.silenceTimer);
      this.send('unsubscribe', this.topics);
      this.change(NOTHING_PUSHED);
    }
  }

  private connect(): void {
    this.change({ socket: this.attempt === 0 ? 'connecting' : 'closed', ...NOTHING_PUSHED });
    const socket = this.around.open(this.url);
    this.socket = socket;
    socket.onopen = () => {
      this.change({ socket: 'open' });
      if (this.wanted) this.subscribe();
    };
    socket.onmessage = (event: MessageEvent) => {
      const message = parseMessage(event.data);
      if (message) this.receive(message);
    };
    socket.onclose = () => {
      if (this.socket === socket) this.reconnectLater();
    };
  }

  private reconnectLater(): void {
    this.drop();
    clearTimeout(this.silenceTimer);
    this.change({ socket: 'closed', ...NOTHING_PUSHED });
    if (!this.started) return;
    const delay = reconnectDelay(this.attempt, this.around.random());
    this.attempt += 1;
    this.retryTimer = setTimeout(() => this.connect(), delay);
  }

  /** Forgets the socket before closing it, so that its late events are nobody's. */
  private drop(): void {
    const socket = this.socket;
    this.socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  private receive(message: LiveMessage): void {
    if (!this.wanted) return;
    if (message.kind === 'error') {
      this.refuse(message);
      return;
    }
    this.attempt = 0;
    this.refusals.delete(message.topic);
    this.pushed([...this.snapshot.topics.filter((topic) => topic !== message.topic), message.topic]);
    this.watchSilence();
    if (this.handlers.onData(message)) this.requestSnapshot(message.topic);
  }

  private refuse({ topic, code, message }: LiveRefusal): void {
    this.refusals.set(topic, message || code);
    this.pushed(this.snapshot.topics.filter((each) => each !== topic));
    if (!this.snapshot.subscribed) clearTimeout(this.silenceTimer);
    if (code !== 'service_not_ready') return;
    const socket = this.socket;
    setTimeout(() => {
      if (this.socket === socket && this.wanted) this.send('subscribe', [topic]);
    }, NOT_READY_MS);
  }

  private pushed(topics: readonly string[]): void {
    const sorted = [...topics].sort();
    const same = sorted.join() === this.snapshot.topics.join();
    const refusal = [...this.refusals.values()][0] ?? null;
    this.change({ topics: same ? this.snapshot.topics : sorted, subscribed: sorted.length > 0, refusal });
  }

  private subscribe(): void {
    this.refusals.clear();
    for (const topic of this.topics) this.handlers.onRestart(topic);
    this.send('subscribe', this.topics);
    this.watchSilence(ANSWER_MS);
  }

  private requestSnapshot(topic: string): void {
    const now = Date.now();
    if (now - (this.snapshotRequests.get(topic) ?? 0) < SNAPSHOT_INTERVAL_MS) return;
    this.snapshotRequests.set(topic, now);
    this.send('unsubscribe', [topic]);
    this.send('subscribe', [topic]);
  }

  private watchSilence(grace = 0): void {
    clearTimeout(this.silenceTimer);
    this.silenceTimer = setTimeout(
      () => {
        if (!this.wanted || this.snapshot.socket !== 'open') return;
        for (const topic of this.topics) if (!this.refusals.has(topic)) this.requestSnapshot(topic);
        this.silenceTimer = setTimeout(() => this.reconnectLater(), ANSWER_MS);
      },
      grace || SILENCE_MS,
    );
  }

  private send(op: 'subscribe' | 'unsubscribe', topics: readonly string[]): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ op, topics }));
  }

  private change(part: Partial<LiveSnapshot>): void {
    const next = { ...this.snapshot, ...part };
    const same = (Object.keys(next) as (keyof LiveSnapshot)[]).every((key) => next[key] === this.snapshot[key]);
    if (same) return;
    this.snapshot = next;
    for (const listener of this.listeners) listener();
  }
}
