import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';

import { instancesOfGroupQuery } from '../../api/resources';
import type { Instance, InstanceGroup } from '../../api/types';
import layout from '../../components/layout.module.css';
import { Panel } from '../../components/Panel';
import { SimpleTable } from '../../components/table/SimpleTable';
import { Bytes, Count, HitRate, Mono, Time } from '../../components/values';
import { share } from '../../lib/format';
import { useRefetchInterval } from '../../live/LiveProvider';

const SHOWN = 10;

/** The largest instances of the group and their part of its quota; the list page has them all. */
export function GroupInstances({ group }: { group: InstanceGroup }) {
  const { data } = useQuery({ ...instancesOfGroupQuery(group.name), refetchInterval: useRefetchInterval() });
  const bytesOf = ({ usage }: Instance) => usage?.used_bytes ?? 0;
  const rows = [...(data?.results ?? [])].sort((a, b) => bytesOf(b) - bytesOf(a)).slice(0, SHOWN);
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
      flush
    >
      {rows.length === 0 ? (
        <p className={layout.note}>
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
            { header: 'Blocks', align: 'right', cell: ({ usage }) => <Count value={usage?.blocks} unit="blocks" /> },
            { header: 'Size', align: 'right', cell: ({ usage }) => <Bytes value={usage?.used_bytes} /> },
            {
              header: 'Of quota',
              align: 'right',
              cell: ({ usage }) => share(usage && group.quota.capacity_bytes > 0 ? usage.used_bytes / group.quota.capacity_bytes : null),
            },
            {
              header: 'Hit rate',
              align: 'right',
              cell: ({ traffic }) => <HitRate traffic={traffic} />,
            },
            { header: 'Last seen', cell: ({ last_seen_at: seen }) => <Time value={seen} missing="never" /> },
          ]}
        />
      )}
    </Panel>
  );
}
