import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';

import { storagesQuery } from '../../api/resources';
import type { InstanceGroup } from '../../api/types';
import layout from '../../components/layout.module.css';
import { Meter } from '../../components/meter/Meter';
import { Panel } from '../../components/Panel';
import { StatusBadge } from '../../components/status/StatusBadge';
import { SimpleTable } from '../../components/table/SimpleTable';
import { Mono } from '../../components/values';
import { useRefetchInterval } from '../../live/LiveProvider';
import { storageStatus, typeName } from '../storages/status';
import { preferenceText } from './preference';

/** One request for all storages, not one for each candidate. */
export function CandidatesPanel({ group }: { group: InstanceGroup }) {
  const { data } = useQuery({ ...storagesQuery({ size: 250 }), refetchInterval: useRefetchInterval() });
  const byName = new Map(data?.results.map((storage) => [storage.name, storage]));
  const rows = group.storage_candidates.map((name, index) => ({ name, order: index + 1, storage: byName.get(name) }));
  return (
    <Panel
      title="Storage candidates"
      note={`tried in this order, ${preferenceText(group.prefer_strategy)}`}
      flush
    >
      {rows.length === 0 ? (
        <p className={layout.note}>The group has no candidate: nothing can be written.</p>
      ) : (
        <SimpleTable
          label="Storage candidates"
          rows={rows}
          rowKey={({ name }) => name}
          columns={[
            { header: '#', align: 'right', cell: ({ order }) => <span className="muted">{order}</span> },
            {
              header: 'Storage',
              cell: ({ name }) => (
                <Link to="/storages/$name" params={{ name }}>
                  <Mono>{name}</Mono>
                </Link>
              ),
            },
            { header: 'Type', cell: ({ storage }) => (storage ? typeName(storage.type) : <Missing known={!!data} />) },
            {
              header: 'Status',
              cell: ({ storage }) => {
                if (!storage) return null;
                const { tone, word, hint } = storageStatus(storage);
                return (
                  <StatusBadge tone={tone} hint={hint}>
                    {word}
                  </StatusBadge>
                );
              },
            },
            {
              header: 'Used of capacity',
              cell: ({ name, storage }) =>
                storage && (
                  <Meter
                    label={`Capacity of ${name}`}
                    used={storage.usage?.used_bytes ?? null}
                    limit={storage.capacity_bytes}
                    high={storage.high_watermark_ratio}
                    low={storage.low_watermark_ratio}
                  />
                ),
            },
          ]}
        />
      )}
    </Panel>
  );
}

function Missing({ known }: { known: boolean }) {
  return <span className="muted">{known ? 'not listed' : '…'}</span>;
}
