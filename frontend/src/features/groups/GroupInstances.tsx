import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';

import { instancesQuery } from '../../api/resources';
import type { InstanceGroup } from '../../api/types';
import layout from '../../components/layout.module.css';
import { Panel } from '../../components/Panel';
import { SimpleTable } from '../../components/table/SimpleTable';
import { Bytes, Count, HitRate, Mono, Time } from '../../components/values';
import { share } from '../../lib/format';
import { useRefetchInterval } from '../../live/LiveProvider';

/** The largest instances of the group and their part of its quota; the list page has them all. */
export function GroupInstances({ group }: { group: InstanceGroup }) {
  const { data } = useQuery({ ...instancesQuery({ q: group.name, size: 250 }), refetchInterval: useRefetchInterval() });
  const rows = (data?.results ?? [])
    .filter(({ instance_group: name }) => name === group.name)
    .sort((a, b) => b.usage.used_bytes - a.usage.used_bytes)
    .slice(0, 10);
  return (
    <Panel
      title="Instances"
      note={rows.length < group.instance_count ? `the largest ${rows.length} of ${group.instance_count}` : undefined}
      actions={
        group.instance_count > 0 && (
          <Link to="/instances" search={{ q: group.name }}>
            Show in the list
          </Link>
        )
      }
      className={layout.full}
      flush
    >
      {rows.length === 0 ? (
        <p className="muted" style={{ padding: '8px 16px 16px' }}>
          {data ? 'No instance is registered. Engines register themselves over gRPC or HTTP.' : 'Loading…'}
        </p>
      ) : (
        <SimpleTable
          label="Instances of the group"
          rows={rows}
          rowKey={({ instance_id: id }) => id}
          columns={[
            {
              header: 'Instance',
              cell: ({ instance_id: id }) => (
                <Link to="/instances/$instanceId" params={{ instanceId: id }}>
                  <Mono>{id}</Mono>
                </Link>
              ),
            },
            { header: 'Model', cell: ({ model_deployment: model }) => model.model_name },
            { header: 'Blocks', align: 'right', cell: ({ usage }) => <Count value={usage.blocks} unit="blocks" /> },
            { header: 'Size', align: 'right', cell: ({ usage }) => <Bytes value={usage.used_bytes} /> },
            {
              header: 'Of quota',
              align: 'right',
              cell: ({ usage }) => share(group.quota.capacity_bytes ? usage.used_bytes / group.quota.capacity_bytes : null),
            },
            {
              header: 'Hit rate',
              align: 'right',
              cell: ({ traffic }) => (
                <HitRate value={traffic.hit_rate} hit={traffic.hit_blocks} requested={traffic.requested_blocks} />
              ),
            },
            { header: 'Last seen', cell: ({ last_seen_at: seen }) => <Time value={seen} missing="never" /> },
          ]}
        />
      )}
    </Panel>
  );
}
