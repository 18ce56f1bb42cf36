import { IconPlugConnected } from '@tabler/icons-react';

import type { Rpc } from '../../api/types';
import { EmptyState } from '../../components/EmptyState';
import { Panel } from '../../components/Panel';
import { SimpleTable } from '../../components/table/SimpleTable';
import { Mono } from '../../components/values';
import { exact, milliseconds, rate } from '../../lib/format';
import classes from './Overview.module.css';

export function RpcTable({ rpcs }: { rpcs: readonly Rpc[] }) {
  const busiest = Math.max(...rpcs.map((rpc) => rpc.per_second), 0);
  return (
    <Panel title="RPCs" note="last 10 s" flush>
      {rpcs.length === 0 ? (
        <EmptyState icon={<IconPlugConnected size={24} stroke={1.5} />} title="No call in the last 10 s">
          Engines call over gRPC or the compatible HTTP; the first call shows here within a second.
        </EmptyState>
      ) : (
        <SimpleTable
          label="RPCs"
          rows={rpcs}
          rowKey={({ name }) => name}
          columns={[
            { header: 'RPC', cell: ({ name }) => <Mono>{name}</Mono> },
            {
              header: 'Per second',
              align: 'right',
              cell: ({ per_second: perSecond }) => (
                <span className={classes.rate}>
                  <span className={classes.rateBar} style={{ width: `${busiest ? (perSecond / busiest) * 56 : 0}px` }} />
                  {rate(perSecond)}
                </span>
              ),
            },
            { header: 'p50', align: 'right', cell: ({ p50_ms: p50 }) => milliseconds(p50) },
            { header: 'p99', align: 'right', cell: ({ p99_ms: p99 }) => milliseconds(p99) },
            {
              header: 'Errors',
              align: 'right',
              cell: ({ errors }) =>
                errors > 0 ? <span className={classes.errors}>{exact(errors)}</span> : <span className="muted">0</span>,
            },
          ]}
        />
      )}
    </Panel>
  );
}
