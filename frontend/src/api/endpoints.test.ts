import { expect, it } from 'vitest';

import { endpoint } from './endpoints';

it('puts an object into its address, whatever its name', () => {
  expect(endpoint('storages')).toBe('/api/v1/storages/');
  expect(endpoint('storage', 'nfs_01')).toBe('/api/v1/storages/nfs_01/');
  expect(endpoint('instance', 'team/model $1')).toBe('/api/v1/instances/team%2Fmodel%20%241/');
  expect(endpoint('orphansCancel', 'nfs_01', '7')).toBe('/api/v1/storages/nfs_01/orphans/7/cancel/');
});
