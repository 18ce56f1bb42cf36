import type { Segment, Storage } from '../../api/types';
import { Meter } from '../../components/meter/Meter';
import { Panel } from '../../components/Panel';
import { StatusBadge, type Tone } from '../../components/status/StatusBadge';
import { SimpleTable } from '../../components/table/SimpleTable';
import { Count, Mono, Time } from '../../components/values';

const STATES: Record<Segment['state'], { tone: Tone; word: string; hint: string }> = {
  available: { tone: 'ok', word: 'Available', hint: 'Read and written' },
  unavailable: { tone: 'critical', word: 'Away', hint: 'Its node does not answer: its blocks are misses until it does' },
  lost: { tone: 'warn', word: 'Lost', hint: 'Its memory is gone for good: its blocks are being cleared' },
};

/** The memory of each node of a pool. */
export function SegmentsPanel({ storage: { segments, type } }: { storage: Storage }) {
  if (segments.length === 0 && type !== 'tair_mempool') return null;
  return (
    <Panel title="Segments" note={segments.length} flush={segments.length > 0}>
      {segments.length === 0 ? (
        <p className="muted">No node of the pool has shown itself yet.</p>
      ) : (
        <SimpleTable
          label="Segments"
          rows={segments}
          rowKey={({ number }) => String(number)}
          columns={[
            { header: 'Node', cell: ({ node_id }) => <Mono>{node_id}</Mono> },
            {
              header: 'State',
              cell: ({ state }) => (
                <StatusBadge tone={STATES[state].tone} hint={STATES[state].hint} plain>
                  {STATES[state].word}
                </StatusBadge>
              ),
            },
            { header: 'Address', cell: ({ address }) => <Mono>{address}</Mono> },
            {
              header: 'Used of size',
              cell: ({ node_id: node, used_bytes: used, size_bytes: size }) => (
                <Meter label={`Memory of ${node}`} used={used} limit={size} />
              ),
            },
            { header: 'Blocks', align: 'right', cell: ({ usage }) => <Count value={usage?.blocks} unit="blocks" /> },
            { header: 'Last seen', cell: ({ seen_at: seen }) => <Time value={seen} /> },
            { header: 'Number', align: 'right', hint: 'Stands for it in block records', cell: ({ number }) => number },
          ]}
        />
      )}
    </Panel>
  );
}
