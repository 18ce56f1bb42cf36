import { Skeleton } from '@mantine/core';
import { IconAlertTriangleFilled, IconCircleCheckFilled, IconCircleXFilled } from '@tabler/icons-react';
import { useMemo } from 'react';

import type { HistoryPoint, Overview } from '../../api/types';
import { columns, hitShare } from '../../components/chart/series';
import { TimeChart } from '../../components/chart/TimeChart';
import { ErrorState } from '../../components/ErrorState';
import { CapacityBar } from '../../components/meter/CapacityBar';
import { PageHeader } from '../../components/PageHeader';
import { Panel } from '../../components/Panel';
import { bytes, count, rate, share } from '../../lib/format';
import { useOverview } from '../../live/LiveProvider';
import { Figure } from './Figure';
import { figuresOf, verdictSentence } from './figures';
import classes from './Overview.module.css';
import { ProcessTable } from './ProcessTable';
import { RpcTable } from './RpcTable';
import { Savings } from './Savings';
import { Totals } from './Totals';

export function OverviewPage() {
  const { data, error, isError, refetch } = useOverview();
  return (
    <>
      <PageHeader title="Overview" />
      {data ? (
        <Picture overview={data} />
      ) : isError ? (
        <Panel>
          <ErrorState title="The overview could not be loaded" error={error} onRetry={() => void refetch()} />
        </Panel>
      ) : (
        <Loading />
      )}
    </>
  );
}

function Picture({ overview }: { overview: Overview }) {
  return (
    <div className={classes.stack}>
      <Verdict overview={overview} />
      <div className={classes.cards}>
        {figuresOf(overview).map((figure) => (
          <Figure key={figure.label} {...figure} />
        ))}
      </div>
      <Charts history={overview.history} />
      <div className={classes.halves}>
        <Panel title="Space" note={`${count(overview.blocks)} blocks kept`}>
          <CapacityBar
            parts={[
              {
                key: 'used',
                label: 'Used',
                value: overview.used_bytes - overview.pending_bytes,
                hint: 'Blocks being written or served',
              },
              {
                key: 'reserved',
                label: 'Reserved',
                value: overview.reserved_bytes,
                hint: 'Promised to open write sessions',
              },
              { key: 'pending', label: 'Pending deletion', value: overview.pending_bytes, hint: 'Not yet given back' },
            ]}
            limit={overview.quota_bytes}
            limitLabel="Quota of all groups"
          />
        </Panel>
        <Totals totals={overview.totals} />
      </div>
      <Savings savings={overview.savings} />
      <div className={classes.halves}>
        <RpcTable rpcs={overview.rpcs} />
        <ProcessTable processes={overview.processes} />
      </div>
    </div>
  );
}

const VERDICT_ICON = { ok: IconCircleCheckFilled, degraded: IconAlertTriangleFilled, down: IconCircleXFilled } as const;

function Verdict({ overview }: { overview: Overview }) {
  const { state } = overview.verdict;
  const Icon = VERDICT_ICON[state];
  return (
    <p className={classes.verdict} data-state={state} role="status">
      <Icon size={20} aria-hidden />
      <span>{verdictSentence(overview)}</span>
    </p>
  );
}

const HIT_SERIES = [{ label: 'Found', colour: 2, fill: true }] as const;
const CALL_SERIES = [{ label: 'Calls a second', colour: 0, fill: true }] as const;
const BLOCK_SERIES = [
  { label: 'Requested', colour: 5 },
  { label: 'Hit', colour: 2, fill: true },
] as const;
const SPACE_SERIES = [{ label: 'Used', colour: 3, fill: true }] as const;

const asShare = (value: number) => share(value);

function Charts({ history }: { history: HistoryPoint[] }) {
  const hits = useMemo(() => columns(history, hitShare), [history]);
  const calls = useMemo(() => columns(history, (point) => point.requests_per_second), [history]);
  const blocks = useMemo(
    () => columns(history, (point) => point.requested_blocks, (point) => point.hit_blocks),
    [history],
  );
  const space = useMemo(() => columns(history, (point) => point.used_bytes), [history]);
  return (
    <div className={classes.charts}>
      <TimeChart title="Hit rate" spokenName="Share of blocks found over time" note="share of blocks, 5 min" series={HIT_SERIES} data={hits} format={asShare} top={1} syncKey="overview" />
      <TimeChart title="Requests per second" spokenName="Calls over time" note="all RPCs, 10 s" series={CALL_SERIES} data={calls} format={rate} syncKey="overview" />
      <TimeChart title="Blocks" spokenName="Blocks asked for and found over time" note="sum of 5 min" series={BLOCK_SERIES} data={blocks} format={count} syncKey="overview" />
      <TimeChart title="Used space" spokenName="Space over time" note="all groups" series={SPACE_SERIES} data={space} format={bytes} binary syncKey="overview" />
    </div>
  );
}

function Loading() {
  return (
    <div className={classes.stack} aria-busy="true" aria-label="Loading the overview">
      <Skeleton height={44} />
      <div className={classes.cards}>
        {Array.from({ length: 8 }, (_, index) => (
          <Skeleton key={index} height={92} />
        ))}
      </div>
      <div className={classes.charts}>
        {Array.from({ length: 4 }, (_, index) => (
          <Skeleton key={index} height={250} />
        ))}
      </div>
    </div>
  );
}
