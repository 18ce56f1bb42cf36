import type { Overview } from '../../api/types';
import { Figures } from '../../components/Facts';
import { Panel } from '../../components/Panel';
import { Count } from '../../components/values';
import { share } from '../../lib/format';

export function Totals({ totals }: { totals: Overview['totals'] }) {
  return (
    <Panel title="Totals" note="since the first start">
      <Figures
        figures={[
          { label: 'Requests', value: <Count value={totals.requests} unit="requests" /> },
          { label: 'Requested', value: <Count value={totals.requested_blocks} unit="blocks" /> },
          { label: 'Hit', value: <Count value={totals.hit_blocks} unit="blocks" /> },
          { label: 'Written', value: <Count value={totals.written_blocks} unit="blocks" /> },
          { label: 'Refused for want of room', value: <Count value={totals.quota_refused} unit="writes" /> },
          {
            label: 'Hits of requested',
            value: share(totals.requested_blocks ? totals.hit_blocks / totals.requested_blocks : null),
          },
        ]}
      />
    </Panel>
  );
}
