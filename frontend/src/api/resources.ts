/** Every query and write of the resources, in one place, so that pages share keys and caches. */

import { keepPreviousData, queryOptions } from '@tanstack/react-query';

import { listQuery, type ListSearch } from '../lib/listSearch';
import { request } from './client';
import { endpoint } from './endpoints';
import type { GroupChange, HealthChange, Instance, InstanceGroup, Page, Storage, StorageChange } from './types';

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

export const storagesQuery = (search: ListSearch) => listOf<Storage>(endpoint('storages'), 'storages', search, 'name');
export const storageQuery = (name: string) => objectOf<Storage>(storagePath(name), 'storages', name);
/** Turns of a storage's health, the newest first. */
export const storageHealthQuery = (name: string) =>
  queryOptions({
    queryKey: ['storages', 'health', name],
    queryFn: ({ signal }) =>
      request<Page<HealthChange>>(endpoint('storageHealth', name), { query: { page_size: 25 }, signal }),
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

export function storageUpdate(name: string, change: StorageChange): Promise<Storage> {
  return request<Storage>(storagePath(name), { method: 'PATCH', body: change });
}

export function groupUpdate(name: string, change: GroupChange): Promise<InstanceGroup> {
  return request<InstanceGroup>(groupPath(name), { method: 'PATCH', body: change });
}

export function instanceRemove(id: string): Promise<void> {
  return request<undefined>(instancePath(id), { method: 'DELETE' });
}
