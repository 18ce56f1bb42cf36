import type { paths } from './schema';

/** Where the resources live. The generated paths check it: an address that moves fails here. */
const ENDPOINTS = {
  login: '/api/v1/auth/login/',
  logout: '/api/v1/auth/logout/',
  session: '/api/v1/auth/session/',
  overview: '/api/v1/overview',
  storages: '/api/v1/storages/',
  storage: '/api/v1/storages/{name}/',
  storageHealth: '/api/v1/storages/{name}/health-changes/',
  storageSamples: '/api/v1/storages/{name}/health-samples/',
  storageTrial: '/api/v1/storages/test-connection/',
  savedStorageTrial: '/api/v1/storages/{name}/test-connection/',
  storageRestore: '/api/v1/storages/{name}/restore/',
  storageAbandon: '/api/v1/storages/{name}/abandon/',
  storageOrphans: '/api/v1/storages/{name}/orphans/',
  orphansCancel: '/api/v1/storages/{name}/orphans/{id}/cancel/',
  storageTypes: '/api/v1/storage-types/',
  alerts: '/api/v1/alerts/',
  alertAcknowledge: '/api/v1/alerts/{id}/acknowledge/',
  alertSilences: '/api/v1/alert-silences/',
  alertSilence: '/api/v1/alert-silences/{id}/',
  groups: '/api/v1/instance-groups/',
  group: '/api/v1/instance-groups/{name}/',
  instances: '/api/v1/instances/',
  instance: '/api/v1/instances/{instance_id}/',
  estimates: '/api/v1/optimizer/estimates/',
} as const satisfies Record<string, keyof paths>;

export type Endpoint = keyof typeof ENDPOINTS;

/** The address of an endpoint; the names of objects take the places of its parameters, in their order. */
export function endpoint(name: Endpoint, ...objects: string[]): string {
  let place = 0;
  return ENDPOINTS[name].replace(/\{\w+\}/g, () => encodeURIComponent(objects[place++] ?? ''));
}
