/** The one word of the header's pill, from what is known about the connection. */

export type SocketState = 'idle' | 'connecting' | 'open' | 'closed';
export type LiveStatus = 'live' | 'connecting' | 'reconnecting' | 'stale' | 'paused';

/** Without the socket the pages poll every 5 s; two missed polls make the picture old. */
export const STALE_AFTER_MS = 12_000;
export const POLL_MS = 5_000;

export interface LiveFacts {
  socket: SocketState;
  paused: boolean;
  /** Whether the server answered the subscription on the present socket. */
  subscribed: boolean;
  /** When the newest picture came, by any way; null before the first. */
  receivedAt: number | null;
  now: number;
}

export function liveStatus({ socket, paused, subscribed, receivedAt, now }: LiveFacts): LiveStatus {
  if (paused) return 'paused';
  if (socket === 'open' && subscribed) return 'live';
  if (receivedAt === null) return socket === 'closed' ? 'reconnecting' : 'connecting';
  return now - receivedAt > STALE_AFTER_MS ? 'stale' : 'reconnecting';
}

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 15_000;

/** Doubling waits with jitter, so that browsers do not all come back in the same instant. */
export function reconnectDelay(attempt: number, random: number): number {
  const ceiling = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.min(attempt, 10));
  return Math.round(ceiling * (0.5 + random / 2));
}
