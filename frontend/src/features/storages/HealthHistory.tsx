import { useQuery } from '@tanstack/react-query';

import { storageHealthQuery } from '../../api/resources';
import layout from '../../components/layout.module.css';
import { Panel } from '../../components/Panel';
import { StatusBadge } from '../../components/status/StatusBadge';
import { SimpleTable } from '../../components/table/SimpleTable';
import { Time } from '../../components/values';
import { exact, milliseconds } from '../../lib/format';
import { useRefetchInterval } from '../../live/LiveProvider';

/** When the storage turned healthy or failed, and what the check said. */
export function HealthHistory({ name }: { name: string }) {
  const { data, isError } = useQuery({ ...storageHealthQuery(name), refetchInterval: useRefetchInterval() });
  const rows = data?.results ?? [];
  const more = data && data.count > rows.length;
  return (
    <Panel title="Health history" note={more ? `the last ${rows.length} of ${exact(data.count)} turns` : undefined} flush>
      {rows.length === 0 ? (
        <p className={layout.note}>{note(data !== undefined, isError)}</p>
      ) : (
        <SimpleTable
          label="Health history"
          rows={rows}
          rowKey={({ at }) => at}
          columns={[
            { header: 'When', cell: ({ at }) => <Time value={at} /> },
            {
              header: 'Turned',
              cell: ({ is_available: available }) => (
                <StatusBadge tone={available ? 'ok' : 'critical'} plain>
                  {available ? 'Healthy' : 'Failing'}
                </StatusBadge>
              ),
            },
            { header: 'Latency', align: 'right', cell: ({ latency_ms: latency }) => milliseconds(latency) },
            { header: 'Message', cell: ({ message }) => message || <span className="muted">none</span> },
          ]}
        />
      )}
    </Panel>
  );
}

function note(isLoaded: boolean, failed: boolean): string {
  if (isLoaded) return 'Its health has not changed since it was added.';
  return failed ? 'The history could not be loaded.' : 'Loading…';
}
