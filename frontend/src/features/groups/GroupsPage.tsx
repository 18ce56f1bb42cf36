import { IconStack2 } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import type { ColumnDef } from '@tanstack/react-table';

import { endpoint } from '../../api/endpoints';
import { groupsQuery } from '../../api/resources';
import type { InstanceGroup } from '../../api/types';
import { CopyActions } from '../../components/CopyButton';
import { EmptyState } from '../../components/EmptyState';
import { Meter } from '../../components/meter/Meter';
import { PageHeader } from '../../components/PageHeader';
import { DataTable } from '../../components/table/DataTable';
import { Count, HitRate, Mono, Time } from '../../components/values';
import { exact, share } from '../../lib/format';
import { listQuery } from '../../lib/listSearch';
import { useRefetchInterval } from '../../live/LiveProvider';
import { CandidateTags } from './CandidateTags';
import { heldBytes, highWatermark, lowWatermark } from './reclaim';

const route = getRouteApi('/app/groups');

const columns: ColumnDef<InstanceGroup>[] = [
  {
    id: 'name',
    header: 'Name',
    meta: { sort: 'name' },
    cell: ({ row }) => (
      <Link to="/groups/$name" params={{ name: row.original.name }}>
        <Mono>{row.original.name}</Mono>
      </Link>
    ),
  },
  {
    id: 'used',
    header: 'Used of quota',
    meta: { width: 230, sort: 'capacity_bytes', hint: 'Ordered by quota' },
    cell: ({ row: { original: group } }) => (
      <Meter
        label={`Quota of ${group.name}`}
        used={group.usage && heldBytes(group.usage)}
        limit={group.quota.capacity_bytes}
        high={highWatermark(group.reclaim, group.quota.capacity_bytes)}
        low={lowWatermark(group.reclaim, group.quota.capacity_bytes)}
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
    id: 'hit_rate',
    header: 'Hit rate',
    meta: { align: 'right', hint: 'Hit blocks of requested blocks, since the group exists' },
    cell: ({ row: { original: group } }) => <HitRate traffic={group.traffic} />,
  },
  {
    id: 'instances',
    header: 'Instances',
    meta: { sort: 'instance_count', align: 'right', hint: 'Registered, of at most' },
    cell: ({ row: { original: group } }) => (
      <span>
        {exact(group.instance_count)}{' '}
        <span className="muted">/ {group.max_instance_count > 0 ? exact(group.max_instance_count) : '∞'}</span>
      </span>
    ),
  },
  {
    id: 'candidates',
    header: 'Storage candidates',
    cell: ({ row }) => <CandidateTags names={row.original.storage_candidates} />,
  },
  {
    id: 'reclaim',
    header: 'Reclaim',
    meta: { hint: 'Policy, and the share of the quota above which it starts' },
    cell: ({ row: { original: group } }) => {
      const high = highWatermark(group.reclaim, group.quota.capacity_bytes);
      return (
        <span>
          {group.reclaim.policy.toUpperCase()}
          {high !== null && <span className="muted"> above {share(high)}</span>}
        </span>
      );
    },
  },
  { id: 'updated', header: 'Changed', meta: { sort: 'updated_at' }, cell: ({ row }) => <Time value={row.original.updated_at} /> },
];

export function GroupsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useQuery({ ...groupsQuery(search), refetchInterval: useRefetchInterval() });
  return (
    <>
      <PageHeader
        title="Instance groups"
        summary="Instances that share a quota, its storages in order, and the rules by which space is given back."
      />
      <DataTable
        id="groups"
        label="Instance groups"
        noun={['group', 'groups']}
        query={query}
        columns={columns}
        rowId={({ name }) => name}
        onOpen={({ name }) => void navigate({ to: '/groups/$name', params: { name } })}
        search={search}
        defaultSort="name"
        onSearch={(next, replace) => void navigate({ search: next, replace: replace ?? false })}
        filterHint="Filter by name or user data"
        actions={<CopyActions path={endpoint('groups')} query={listQuery(search, 'name')} />}
        empty={
          <EmptyState icon={<IconStack2 size={28} stroke={1.5} />} title="No instance group yet">
            A group holds the quota of its instances. Create one through the REST API (POST /api/v1/instance-groups/) or
            AdminService; it appears here at once.
          </EmptyState>
        }
      />
    </>
  );
}
