import { SegmentedControl } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';

import { storageSamplesQuery } from '../../api/resources';
import { TimeChart } from '../../components/chart/TimeChart';
import layout from '../../components/layout.module.css';
import { Panel } from '../../components/Panel';
import { milliseconds } from '../../lib/format';
import { clock } from '../../lib/time';
import { useRefetchInterval } from '../../live/LiveProvider';
import { bucketsOf, latencies, stripWords } from './samples';
import classes from './storages.module.css';

const RANGES = [
  { value: '1', label: '1 h' },
  { value: '6', label: '6 h' },
  { value: '24', label: '24 h' },
];
const SERIES = [
  { label: 'Average', colour: 0, fill: true },
  { label: 'Slowest', colour: 1 },
] as const;

/** How long checks took, and which of them failed. */
export function HealthChart({ name }: { name: string }) {
  const [hours, setHours] = useState('1');
  const { data, isError } = useQuery({ ...storageSamplesQuery(name, Number(hours)), refetchInterval: useRefetchInterval() });
  const table = useMemo(() => (data ? latencies(data) : null), [data]);
  const buckets = useMemo(() => (data ? bucketsOf(data) : []), [data]);
  const range = <SegmentedControl size="xs" aria-label="Range of the checks" data={RANGES} value={hours} onChange={setHours} />;
  if (!table) {
    return (
      <Panel title="Checks" actions={range}>
        <p className="muted">{isError ? 'The checks could not be loaded.' : 'Loading…'}</p>
      </Panel>
    );
  }
  return (
    <div className={layout.stack}>
      <TimeChart
        title="Latency of checks"
        spokenName="How long checks took"
        note={range}
        series={SERIES}
        data={table}
        format={milliseconds}
        syncKey={`checks-${name}`}
      />
      <Panel title="Checks" note={stripWords(buckets)}>
        <div className={classes.strip} role="img" aria-label={stripWords(buckets)}>
          {buckets.map(({ at, checks, failures, state }) => (
            <span
              key={at}
              className={classes.bucket}
              data-state={state}
              title={`${clock(at * 1000)}: ${checks === 0 ? 'no check' : `${failures} of ${checks} checks failed`}`}
            />
          ))}
        </div>
      </Panel>
    </div>
  );
}
