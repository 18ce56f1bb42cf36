/** Every query and write of the resources, in one place, so that pages share keys and caches. */

import { keepPreviousData, queryOptions } from '@tanstack/react-query';

import { listQuery, type AlertSearch, type ListSearch } from '../lib/listSearch';
import { request } from './client';
import { endpoint } from './endpoints';
import type {
  Alert,
  Estimate,
  GroupChange,
  HealthChange,
  HealthSamples,
  Instance,
  InstanceGroup,
  OrphanRun,
  Page,
  Silence,
  Storage,
  StorageChange,
  StorageInput,
  StorageTypeInfo,
  Trial,
} from './types';

function listOf<T>(path: string, key: string, search: ListSearch, defaultSort: string) {
  const query = listQuery(search, defaultSort);
  return queryOptions({
    queryKey: [key, 'list', query],
    queryFn: ({ signal }) => request<Page<T>>(path, { query, signal }),
    placeholderData: keepPreviousData,
  });
}

function objectOf<T>(path: string, key: string, name: string) {
  return queryOptions({
    queryKey: [key, 'detail', name],
    queryFn: ({ signal }) => request<T>(path, { signal }),
  });
}

export const storagePath = (name: string) => endpoint('storage', name);
export const groupPath = (name: string) => endpoint('group', name);
export const instancePath = (id: string) => endpoint('instance', id);

export type EstimateOf = { group: string } | { instance: string };
/** What other capacities would hit, of a group or of one of its instances; null before anything is known. */
export const estimateQuery = (of: EstimateOf) =>
  queryOptions({
    queryKey: ['estimates', of],
    queryFn: async ({ signal }) => {
      const query =
        'group' in of ? { kind: 'group', instance_group: of.group } : { kind: 'instance', instance_id: of.instance };
      return (await request<Page<Estimate>>(endpoint('estimates'), { query, signal })).results[0] ?? null;
    },
  });

export const storagesQuery = (search: ListSearch) => listOf<Storage>(endpoint('storages'), 'storages', search, 'name');
export const storageQuery = (name: string) => objectOf<Storage>(storagePath(name), 'storages', name);
/** Turns of a storage's health, the newest first. */
export const storageHealthQuery = (name: string) =>
  queryOptions({
    queryKey: ['storages', 'health', name],
    queryFn: ({ signal }) =>
      request<Page<HealthChange>>(endpoint('storageHealth', name), { query: { page_size: 25 }, signal }),
  });
/** The checks of the last hours in buckets, for the chart of a storage's health. */
export const storageSamplesQuery = (name: string, hours: number) =>
  queryOptions({
    queryKey: ['storages', 'samples', name, hours],
    queryFn: ({ signal }) => {
      const since = new Date(Date.now() - hours * 3_600_000).toISOString();
      return request<HealthSamples>(endpoint('storageSamples', name), { query: { since }, signal });
    },
    placeholderData: keepPreviousData,
  });
/** Searches for what nothing refers to, the newest first. */
export const orphanRunsQuery = (name: string) =>
  queryOptions({
    queryKey: ['storages', 'orphans', name],
    queryFn: ({ signal }) =>
      request<Page<OrphanRun>>(endpoint('storageOrphans', name), { query: { page_size: 5 }, signal }),
  });
export const storageTypesQuery = queryOptions({
  queryKey: ['storage-types'],
  queryFn: ({ signal }) => request<Page<StorageTypeInfo>>(endpoint('storageTypes'), { query: { page_size: 100 }, signal }),
  staleTime: 300_000,
});

/** What fires, as the bell asks for it while nothing is pushed. */
export const firingQuery = { path: endpoint('alerts'), query: { page_size: 200 } } as const;
export const alertsQuery = (search: AlertSearch) => {
  const query = { ...listQuery(search, '-id'), state: search.state ?? 'firing' };
  return queryOptions({
    queryKey: ['alerts', 'list', query],
    queryFn: ({ signal }) => request<Page<Alert>>(endpoint('alerts'), { query, signal }),
    placeholderData: keepPreviousData,
  });
};
export const silencesQuery = queryOptions({
  queryKey: ['alerts', 'silences'],
  queryFn: ({ signal }) => request<Page<Silence>>(endpoint('alertSilences'), { query: { page_size: 100 }, signal }),
});
export const groupsQuery = (search: ListSearch) => listOf<InstanceGroup>(endpoint('groups'), 'groups', search, 'name');
export const groupQuery = (name: string) => objectOf<InstanceGroup>(groupPath(name), 'groups', name);
export const instancesQuery = (search: ListSearch) =>
  listOf<Instance>(endpoint('instances'), 'instances', search, 'instance_id');
export const instanceQuery = (id: string) => objectOf<Instance>(instancePath(id), 'instances', id);

/** One page of a group's instances, as large as the server gives: enough to show the largest. */
export const instancesOfGroupQuery = (group: string) =>
  queryOptions({
    queryKey: ['instances', 'of-group', group],
    queryFn: ({ signal }) =>
      request<Page<Instance>>(endpoint('instances'), { query: { instance_group: group, page_size: 500 }, signal }),
  });

export function storageAdd(body: StorageInput): Promise<Storage> {
  return request<Storage>(endpoint('storages'), { method: 'POST', body });
}

/** `force` goes ahead where stored blocks become unreachable. */
export function storageUpdate(name: string, change: StorageChange, force = false): Promise<Storage> {
  return request<Storage>(storagePath(name), { method: 'PATCH', body: change, query: force ? { force: 1 } : {} });
}

/** Gives the storage while its blocks go first, nothing once it is gone. */
export function storageRemove(name: string, force: boolean): Promise<Storage | undefined> {
  return request<Storage | undefined>(storagePath(name), { method: 'DELETE', query: force ? { force: 1 } : {} });
}

export function storageRestore(name: string): Promise<Storage> {
  return request<Storage>(endpoint('storageRestore', name), { method: 'POST' });
}

export function storageAbandon(name: string): Promise<Storage> {
  return request<Storage>(endpoint('storageAbandon', name), { method: 'POST' });
}

export function storageTry(type: Storage['type'], spec: Storage['spec'], create: boolean): Promise<Trial> {
  return request<Trial>(endpoint('storageTrial'), { method: 'POST', body: { type, spec, create } });
}

export function savedStorageTry(name: string, spec: Storage['spec']): Promise<Trial> {
  return request<Trial>(endpoint('savedStorageTrial', name), { method: 'POST', body: { spec } });
}

/** Looks for what nothing refers to; without `dryRun` it is deleted. */
export function orphansSearch(name: string, dryRun: boolean): Promise<OrphanRun> {
  return request<OrphanRun>(endpoint('storageOrphans', name), { method: 'POST', body: { dry_run: dryRun } });
}

export function orphansCancel(name: string, id: number): Promise<OrphanRun> {
  return request<OrphanRun>(endpoint('orphansCancel', name, String(id)), { method: 'POST' });
}

export function alertAcknowledge(id: number, acknowledged: boolean, note = ''): Promise<Alert> {
  const path = endpoint('alertAcknowledge', String(id));
  return request<Alert>(path, { method: 'POST', body: { acknowledged, note } });
}

export interface NewSilence {
  rule: string;
  subject: string;
  until: string;
  reason: string;
}

export function silenceAdd(body: NewSilence): Promise<Silence> {
  return request<Silence>(endpoint('alertSilences'), { method: 'POST', body });
}

export function silenceEnd(id: number): Promise<void> {
  return request<undefined>(endpoint('alertSilence', String(id)), { method: 'DELETE' });
}

export function groupUpdate(name: string, change: GroupChange): Promise<InstanceGroup> {
  return request<InstanceGroup>(groupPath(name), { method: 'PATCH', body: change });
}

export function instanceRemove(id: string): Promise<void> {
  return request<undefined>(instancePath(id), { method: 'DELETE' });
}
