import { useQuery } from '@tanstack/react-query';

import type { HealthChange } from '../../api/types';
import { storageHealthQuery } from '../../api/resources';
import layout from '../../components/layout.module.css';
import { Panel } from '../../components/Panel';
import { StatusBadge, type Tone } from '../../components/status/StatusBadge';
import { SimpleTable } from '../../components/table/SimpleTable';
import { Time } from '../../components/values';
import { exact, milliseconds } from '../../lib/format';
import { useRefetchInterval } from '../../live/LiveProvider';

type Turn = { tone: Tone; word: string };
const TURNS: Record<HealthChange['event'], Turn> = {
  available: { tone: 'ok', word: 'Healthy' },
  unavailable: { tone: 'critical', word: 'Failing' },
  full: { tone: 'warn', word: 'Full' },
  has_room: { tone: 'ok', word: 'Has room' },
  enabled: { tone: 'info', word: 'Enabled' },
  disabled: { tone: 'off', word: 'Disabled' },
  draining: { tone: 'info', word: 'Draining' },
  drained: { tone: 'ok', word: 'Drained' },
  drain_ended: { tone: 'info', word: 'Drain ended' },
  leaving: { tone: 'warn', word: 'Leaving' },
  stays: { tone: 'info', word: 'Stays' },
  abandoned: { tone: 'critical', word: 'Given up' },
  content_lost: { tone: 'critical', word: 'Content lost' },
  segment_found: { tone: 'info', word: 'Segment found' },
  segment_unavailable: { tone: 'critical', word: 'Segment failing' },
  segment_returned: { tone: 'ok', word: 'Segment back' },
  segment_lost: { tone: 'critical', word: 'Segment lost' },
  segment_settled: { tone: 'info', word: 'Segment settled' },
};

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
          rowKey={({ id }) => String(id)}
          columns={[
            { header: 'When', cell: ({ at }) => <Time value={at} /> },
            {
              header: 'Turned',
              cell: ({ event, node_id: node }) => (
                <StatusBadge tone={TURNS[event].tone} plain>
                  {node ? `${TURNS[event].word} (${node})` : TURNS[event].word}
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
