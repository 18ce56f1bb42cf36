import { IconDatabase } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import type { ColumnDef } from '@tanstack/react-table';

import { endpoint } from '../../api/endpoints';
import { storagesQuery } from '../../api/resources';
import type { Storage } from '../../api/types';
import { ActionButton } from '../../components/actions/ActionButton';
import { CopyActions } from '../../components/CopyButton';
import { EmptyState } from '../../components/EmptyState';
import { Meter } from '../../components/meter/Meter';
import { PageHeader } from '../../components/PageHeader';
import { StatusBadge } from '../../components/status/StatusBadge';
import { DataTable } from '../../components/table/DataTable';
import { Count, Mono, Time } from '../../components/values';
import { milliseconds, NOTHING } from '../../lib/format';
import { listQuery } from '../../lib/listSearch';
import { useRefetchInterval } from '../../live/LiveProvider';
import { storageStatus, typeName } from './status';

const route = getRouteApi('/app/storages');

const columns: ColumnDef<Storage>[] = [
  {
    id: 'name',
    header: 'Name',
    meta: { sort: 'name' },
    cell: ({ row }) => (
      <Link to="/storages/$name" params={{ name: row.original.name }}>
        <Mono>{row.original.name}</Mono>
      </Link>
    ),
  },
  { id: 'type', header: 'Type', meta: { sort: 'type' }, cell: ({ row }) => typeName(row.original.type) },
  {
    id: 'status',
    header: 'Status',
    cell: ({ row }) => {
      const { tone, word, hint } = storageStatus(row.original);
      return (
        <StatusBadge tone={tone} hint={hint}>
          {word}
        </StatusBadge>
      );
    },
  },
  {
    id: 'used',
    header: 'Used of capacity',
    meta: { width: 230, sort: 'capacity_bytes', hint: 'Ordered by capacity' },
    cell: ({ row: { original: storage } }) => (
      <Meter
        label={`Capacity of ${storage.name}`}
        used={storage.usage?.used_bytes ?? null}
        limit={storage.capacity_bytes}
        high={storage.high_watermark_ratio}
        low={storage.low_watermark_ratio}
      />
    ),
  },
  {
    id: 'blocks',
    header: 'Blocks',
    meta: { align: 'right' },
    cell: ({ row }) => <Count value={row.original.usage?.blocks} unit="blocks" />,
  },
  {
    id: 'groups',
    header: 'Groups',
    meta: { align: 'right', hint: 'Instance groups that name it as a candidate' },
    cell: ({ row }) => <span title={row.original.groups.join('\n')}>{row.original.groups.length}</span>,
  },
  {
    id: 'weight',
    header: 'Weight',
    meta: { align: 'right', hint: 'Share of reads among several serving locations' },
    cell: ({ row }) => row.original.weight ?? <span className="muted">by type</span>,
  },
  {
    id: 'latency',
    header: 'Check latency',
    meta: { align: 'right' },
    cell: ({ row }) =>
      row.original.health.latency_ms == null ? (
        <span className="muted">{NOTHING}</span>
      ) : (
        milliseconds(row.original.health.latency_ms)
      ),
  },
  {
    id: 'checked',
    header: 'Last check',
    cell: ({ row }) => <Time value={row.original.health.checked_at} missing="never" />,
  },
];

export function StoragesPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useQuery({ ...storagesQuery(search), refetchInterval: useRefetchInterval() });
  return (
    <>
      <PageHeader
        title="Storages"
        summary="Where blocks are kept: mounted file systems, Mooncake and memory pools."
        actions={
          <ActionButton needs="operator" onClick={() => void navigate({ to: '/storages/-/new' })}>
            Add a storage
          </ActionButton>
        }
      />
      <DataTable
        id="storages"
        label="Storages"
        noun={['storage', 'storages']}
        query={query}
        columns={columns}
        rowId={({ name }) => name}
        onOpen={({ name }) => void navigate({ to: '/storages/$name', params: { name } })}
        search={search}
        defaultSort="name"
        onSearch={(next, replace) => void navigate({ search: next, replace: replace ?? false })}
        filterHint="Filter by name, type or note"
        actions={<CopyActions path={endpoint('storages')} query={listQuery(search, 'name')} />}
        empty={
          <EmptyState icon={<IconDatabase size={28} stroke={1.5} />} title="No storage yet">
            A storage is a place where engines put KV blocks. Add one here, over REST or AdminService, and name it as a
            candidate of an instance group.
          </EmptyState>
        }
      />
    </>
  );
}
