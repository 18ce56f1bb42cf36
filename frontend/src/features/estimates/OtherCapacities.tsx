import { useQuery } from '@tanstack/react-query';
import { clsx } from 'clsx';

import { estimateQuery, type EstimateOf } from '../../api/resources';
import type { Estimate } from '../../api/types';
import { Panel } from '../../components/Panel';
import { Time } from '../../components/values';
import { bytes, exact, exactBytes, NOTHING, share } from '../../lib/format';
import { useRefetchInterval } from '../../live/LiveProvider';
import { advice, capacityRows, NOTICEABLE, points, type CapacityRow } from './estimates';
import classes from './estimates.module.css';

const TITLE = 'Hit rate at other capacities';

/** The real hit rate beside what less and more capacity would have given, from sampled live traffic. */
export function OtherCapacities({ of }: { of: EstimateOf }) {
  const { data, isError } = useQuery({ ...estimateQuery(of), refetchInterval: useRefetchInterval() });
  if (data === undefined) {
    return (
      <Panel title={TITLE}>
        <p className="muted">{isError ? 'Cannot be read now: the index does not answer.' : 'Loading…'}</p>
      </Panel>
    );
  }
  if (data === null) {
    return (
      <Panel title={TITLE}>
        <p className="muted">Nothing yet: it is estimated from prefix matches, from the first seconds of traffic on.</p>
      </Panel>
    );
  }
  return <Rates estimate={data} />;
}

function Rates({ estimate }: { estimate: Estimate }) {
  const minutes = Math.round(estimate.window_seconds / 60);
  if (estimate.asked_blocks === 0) {
    return (
      <Panel title={TITLE} note={`last ${minutes} min`}>
        <p className="muted">No prefix match asked for anything.</p>
      </Panel>
    );
  }
  return (
    <Panel title={TITLE} note={`last ${minutes} min, estimated from live traffic`}>
      <div className={classes.rows} role="table" aria-label={TITLE}>
        {capacityRows(estimate).map((row) => (
          <Row key={row.key} row={row} askedBlocks={estimate.asked_blocks} />
        ))}
      </div>
      <p className={classes.advice}>{advice(estimate)}</p>
      <p className={clsx('muted', classes.note)}>
        {estimate.kind === 'instance' && 'Instances of a group share its capacity. '}
        {estimate.has_seen_all ? (
          'LRU over the whole group.'
        ) : (
          <>
            Learnt since <Time value={estimate.since} />; blocks from before count as found from the present capacity
            on.
          </>
        )}
        {estimate.lost_calls > 0 && ` ${exact(estimate.lost_calls)} calls came too fast to be counted.`}
      </p>
    </Panel>
  );
}

function Row({ row, askedBlocks }: { row: CapacityRow; askedBlocks: number }) {
  const isReal = row.key === 'real';
  const hint = `${exact(row.hitBlocks)} of ${exact(askedBlocks)} blocks`;
  return (
    <div className={classes.row} role="row">
      <span role="rowheader" className={clsx(isReal && classes.real)}>
        {row.label}
      </span>
      <span role="cell" className={clsx('muted', classes.capacity)} title={row.capacityBytes === null ? undefined : exactBytes(row.capacityBytes)}>
        {row.capacityBytes === null ? '' : bytes(row.capacityBytes)}
      </span>
      <span role="cell" className={classes.track} aria-hidden title={hint}>
        <span className={clsx(classes.fill, isReal && classes.real)} style={{ width: `${(row.rate ?? 0) * 100}%` }} />
      </span>
      <strong role="cell" className={classes.rate} title={hint}>
        {row.rate === null ? NOTHING : share(row.rate)}
      </strong>
      <span role="cell" className={clsx(classes.gain, row.gain !== null && Math.abs(row.gain) < NOTICEABLE && 'muted')}>
        {row.gain === null ? '' : points(row.gain)}
      </span>
    </div>
  );
}
