import { useQuery, useQueryClient, type QueryClient, type UseQueryResult } from '@tanstack/react-query';
import { createContext, use, useEffect, useState, useSyncExternalStore, type ReactNode } from 'react';

import { request } from '../api/client';
import { endpoint } from '../api/endpoints';
import { firingQuery, storageQuery } from '../api/resources';
import type { AlertsPicture, Overview, Page, Storage, StoragesPicture } from '../api/types';
import { useNow } from '../lib/useNow';
import { LiveConnection, type LiveSnapshot } from './connection';
import { isNewer, noPicture, pageWithNow, pictureOf, withNow, type PictureState } from './pictures';
import { ALERTS_TOPIC, OVERVIEW_TOPIC, STORAGES_TOPIC, type LiveData } from './protocol';
import { liveStatus, POLL_MS, type LiveStatus } from './status';
import { applyMessage, emptyTopic } from './topic';

export const OVERVIEW_KEY = ['overview'] as const;
const ALERTS_KEY = ['alerts', 'firing'] as const;

const LiveContext = createContext<LiveConnection | null>(null);

function liveUrl(): string {
  const scheme = window.location.protocol === 'https:' ? 'wss' : 'ws';
  return `${scheme}://${window.location.host}/ws/live/`;
}

/** Live messages go into the query cache, where every view already reads. */
function connectTo(client: QueryClient): LiveConnection {
  let overview = emptyTopic;
  const pictures: Record<string, PictureState> = {};
  return new LiveConnection(liveUrl(), [OVERVIEW_TOPIC, ALERTS_TOPIC, STORAGES_TOPIC], {
    onRestart: (topic) => {
      if (topic === OVERVIEW_TOPIC) overview = { ...overview, seq: null };
      else pictures[topic] = noPicture;
    },
    onData: (message) => {
      if (message.topic !== OVERVIEW_TOPIC) {
        if (!isNewer(pictures[message.topic] ?? noPicture, message)) return false;
        pictures[message.topic] = { seq: message.seq, at: message.at };
        keep(client, message);
        return false;
      }
      const step = applyMessage(overview, message);
      overview = step.state;
      if (step.applied && overview.data) client.setQueryData(OVERVIEW_KEY, overview.data);
      return step.needsSnapshot;
    },
  });
}

function keep(client: QueryClient, { topic, data }: LiveData): void {
  if (topic === ALERTS_TOPIC) client.setQueryData<AlertsPicture>(ALERTS_KEY, data as AlertsPicture);
  if (topic !== STORAGES_TOPIC) return;
  const picture = data as StoragesPicture;
  client.setQueriesData<Page<Storage>>({ queryKey: ['storages', 'list'] }, (page) => page && pageWithNow(page, picture));
  for (const now of picture.storages) {
    client.setQueryData<Storage>(storageQuery(now.name).queryKey, (storage) => storage && withNow(storage, now));
  }
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
  const { topics, paused } = useLiveSnapshot();
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
    refetchInterval: topics.includes(OVERVIEW_TOPIC) || paused ? false : POLL_MS,
  });
}

/** What fires now: pushed while the socket lives, polled while it does not, frozen while paused. */
export function useFiringAlerts(): UseQueryResult<AlertsPicture> {
  const { topics, paused } = useLiveSnapshot();
  return useQuery({
    queryKey: ALERTS_KEY,
    queryFn: async ({ signal }) => pictureOf(await request(firingQuery.path, { query: firingQuery.query, signal })),
    staleTime: Number.POSITIVE_INFINITY,
    refetchInterval: topics.includes(ALERTS_TOPIC) || paused ? false : POLL_MS,
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
