import type { Trial } from '../../api/types';
import { Facts } from '../../components/Facts';
import { StatusBadge } from '../../components/status/StatusBadge';
import { SimpleTable } from '../../components/table/SimpleTable';
import { Bytes, Mono } from '../../components/values';
import { milliseconds } from '../../lib/format';
import classes from './storages.module.css';

/** What a trial found: whether it works, how fast, how much room there is. */
export function TrialResult({ trial }: { trial: Trial }) {
  const tone = trial.ok ? (trial.is_full ? 'warn' : 'ok') : 'critical';
  const word = trial.ok ? (trial.is_full ? 'Works, but is full' : 'Works') : 'Does not work';
  return (
    <div className={classes.trial} role="status" aria-label="Result of the trial">
      <StatusBadge tone={tone}>{word}</StatusBadge>
      {trial.message && <p className={classes.trialMessage}>{trial.message}</p>}
      <Facts
        facts={[
          { label: 'Latency', value: milliseconds(trial.latency_ms) },
          { label: 'Used', value: <Bytes value={trial.used_bytes} /> },
          { label: 'Capacity', value: <Bytes value={trial.capacity_bytes} /> },
        ]}
      />
      {trial.segments.length > 0 && (
        <SimpleTable
          label="Segments found"
          rows={trial.segments}
          rowKey={({ node_id, segment_id }) => `${node_id}/${segment_id}`}
          columns={[
            { header: 'Node', cell: ({ node_id }) => <Mono>{node_id}</Mono> },
            { header: 'Address', cell: ({ address }) => <Mono>{address}</Mono> },
            { header: 'Size', align: 'right', cell: ({ size_bytes }) => <Bytes value={size_bytes} /> },
            { header: 'Used', align: 'right', cell: ({ used_bytes }) => <Bytes value={used_bytes} /> },
          ]}
        />
      )}
    </div>
  );
}
