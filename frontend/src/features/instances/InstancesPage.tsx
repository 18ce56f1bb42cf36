import { IconServer2 } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import type { ColumnDef } from '@tanstack/react-table';

import { endpoint } from '../../api/endpoints';
import { instancesQuery } from '../../api/resources';
import type { Instance } from '../../api/types';
import { CopyActions } from '../../components/CopyButton';
import { EmptyState } from '../../components/EmptyState';
import { PageHeader } from '../../components/PageHeader';
import { DataTable } from '../../components/table/DataTable';
import { Bytes, Count, HitRate, Mono, Time } from '../../components/values';
import { exact } from '../../lib/format';
import { listQuery } from '../../lib/listSearch';
import { useRefetchInterval } from '../../live/LiveProvider';
import { parallelism } from './deployment';

const route = getRouteApi('/app/instances');

const columns: ColumnDef<Instance>[] = [
  {
    id: 'instance_id',
    header: 'Instance',
    meta: { sort: 'instance_id' },
    cell: ({ row }) => (
      <Link to="/instances/$instanceId" params={{ instanceId: row.original.instance_id }}>
        <Mono>{row.original.instance_id}</Mono>
      </Link>
    ),
  },
  {
    id: 'group',
    header: 'Group',
    meta: { sort: 'instance_group' },
    cell: ({ row }) => (
      <Link to="/groups/$name" params={{ name: row.original.instance_group }}>
        {row.original.instance_group}
      </Link>
    ),
  },
  { id: 'model', header: 'Model', meta: { sort: 'model_name' }, cell: ({ row }) => row.original.model_deployment.model_name },
  { id: 'dtype', header: 'Dtype', cell: ({ row }) => row.original.model_deployment.dtype },
  {
    id: 'parallelism',
    header: 'TP / PP / DP',
    meta: { hint: 'Tensor, pipeline and data parallelism' },
    cell: ({ row }) => parallelism(row.original.model_deployment),
  },
  {
    id: 'block_size',
    header: 'Block size',
    meta: { sort: 'block_size', align: 'right', hint: 'Tokens in a block' },
    cell: ({ row }) => exact(row.original.block_size),
  },
  {
    id: 'blocks',
    header: 'Blocks',
    meta: { align: 'right' },
    cell: ({ row }) => <Count value={row.original.usage?.blocks} unit="blocks" />,
  },
  {
    id: 'size',
    header: 'Size',
    meta: { align: 'right' },
    cell: ({ row }) => <Bytes value={row.original.usage?.used_bytes} />,
  },
  {
    id: 'hit_rate',
    header: 'Hit rate',
    meta: { align: 'right', hint: 'Hit blocks of requested blocks, since the registration' },
    cell: ({ row: { original: instance } }) => <HitRate traffic={instance.traffic} />,
  },
  {
    id: 'sessions',
    header: 'Open sessions',
    meta: { align: 'right', hint: 'Write sessions that were started and not finished' },
    cell: ({ row }) => exact(row.original.open_write_sessions),
  },
  {
    id: 'seen',
    header: 'Last seen',
    meta: { sort: 'last_seen_at' },
    cell: ({ row }) => <Time value={row.original.last_seen_at} missing="never" />,
  },
];

export function InstancesPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useQuery({ ...instancesQuery(search), refetchInterval: useRefetchInterval() });
  return (
    <>
      <PageHeader title="Instances" summary="Model deployments that registered themselves, and what they keep." />
      <DataTable
        id="instances"
        label="Instances"
        noun={['instance', 'instances']}
        query={query}
        columns={columns}
        rowId={({ instance_id: id }) => id}
        onOpen={({ instance_id: instanceId }) => void navigate({ to: '/instances/$instanceId', params: { instanceId } })}
        search={search}
        defaultSort="instance_id"
        onSearch={(next, replace) => void navigate({ search: next, replace: replace ?? false })}
        filterHint="Filter by id, group or model"
        actions={<CopyActions path={endpoint('instances')} query={listQuery(search, 'instance_id')} />}
        empty={
          <EmptyState icon={<IconServer2 size={28} stroke={1.5} />} title="No instance yet">
            Engines register themselves with RegisterInstance, over gRPC or the compatible HTTP. The first one appears
            here as soon as it has.
          </EmptyState>
        }
      />
    </>
  );
}
