import { useQuery, useQueryClient, type QueryClient, type UseQueryResult } from '@tanstack/react-query';
import { createContext, use, useEffect, useState, useSyncExternalStore, type ReactNode } from 'react';

import { request } from '../api/client';
import { endpoint } from '../api/endpoints';
import type { Overview } from '../api/types';
import { useNow } from '../lib/useNow';
import { LiveConnection, type LiveSnapshot } from './connection';
import { OVERVIEW_TOPIC } from './protocol';
import { liveStatus, POLL_MS, type LiveStatus } from './status';
import { applyMessage, emptyTopic } from './topic';

export const OVERVIEW_KEY = ['overview'] as const;

const LiveContext = createContext<LiveConnection | null>(null);

function liveUrl(): string {
  const scheme = window.location.protocol === 'https:' ? 'wss' : 'ws';
  return `${scheme}://${window.location.host}/ws/live/`;
}

/** Live messages go into the query cache, where every view already reads. */
function connectTo(client: QueryClient): LiveConnection {
  let topic = emptyTopic;
  return new LiveConnection(liveUrl(), [OVERVIEW_TOPIC], {
    onRestart: () => {
      topic = { ...topic, seq: null };
    },
    onData: (message) => {
      const step = applyMessage(topic, message);
      topic = step.state;
      if (step.applied && topic.data) client.setQueryData(OVERVIEW_KEY, topic.data);
      return step.needsSnapshot;
    },
  });
}

export function LiveProvider({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const [connection] = useState(() => connectTo(client));
  useEffect(() => {
    const followTab = () => connection.setHidden(document.hidden);
    const retry = () => connection.retryNow();
    followTab();
    connection.start();
    document.addEventListener('visibilitychange', followTab);
    window.addEventListener('online', retry);
    return () => {
      document.removeEventListener('visibilitychange', followTab);
      window.removeEventListener('online', retry);
      connection.stop();
    };
  }, [connection]);
  return <LiveContext value={connection}>{children}</LiveContext>;
}

export function useLiveConnection(): LiveConnection {
  const connection = use(LiveContext);
  if (!connection) throw new Error('useLiveConnection needs a LiveProvider above it');
  return connection;
}

export function useLiveSnapshot(): LiveSnapshot {
  const connection = useLiveConnection();
  return useSyncExternalStore(connection.listen, connection.getSnapshot);
}

/** The overview: pushed while the socket lives, polled while it does not, frozen while paused. */
export function useOverview(): UseQueryResult<Overview> {
  const { subscribed, paused } = useLiveSnapshot();
  const client = useQueryClient();
  return useQuery({
    queryKey: OVERVIEW_KEY,
    queryFn: async ({ signal }) => {
      const askedAt = Date.now();
      const polled = await request<Overview>(endpoint('overview'), { signal });
      const state = client.getQueryState<Overview>(OVERVIEW_KEY);
      // A push that came while we waited is newer than this answer.
      return state?.data && state.dataUpdatedAt > askedAt ? state.data : polled;
    },
    staleTime: Number.POSITIVE_INFINITY,
    refetchInterval: subscribed || paused ? false : POLL_MS,
  });
}

export interface LiveState {
  status: LiveStatus;
  receivedAt: number | null;
  refusal: string | null;
}

export function useLiveStatus(): LiveState {
  const snapshot = useLiveSnapshot();
  const { dataUpdatedAt } = useOverview();
  const now = useNow(1000);
  const receivedAt = dataUpdatedAt || null;
  return { status: liveStatus({ ...snapshot, receivedAt, now }), receivedAt, refusal: snapshot.refusal };
}

/** How often lists and details ask again: never while the reader has paused. */
export function useRefetchInterval(): number | false {
  return useLiveSnapshot().paused ? false : POLL_MS;
}
