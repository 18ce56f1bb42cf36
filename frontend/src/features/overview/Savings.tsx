import type { Overview } from '../../api/types';
import { Figures } from '../../components/Facts';
import { Panel } from '../../components/Panel';
import { Count } from '../../components/values';
import { amount, money, share } from '../../lib/format';
import { monthName } from '../../lib/time';
import classes from './Overview.module.css';

/** What the caches of all groups saved and cost since the month began. */
export function Savings({ savings }: { savings: Overview['savings'] }) {
  if (savings === null) {
    return (
      <Panel title="Savings" note="this month">
        <p className={classes.quiet}>Counted from the first minutes of traffic on.</p>
      </Panel>
    );
  }
  const { currency } = savings;
  return (
    <Panel title="Savings" note={`${monthName(savings.month)} so far`}>
      <Figures
        figures={[
          {
            label: 'Left after storage',
            value: money(savings.net_money, currency),
            hint: 'What computing the hits again would have cost, less what storage costs',
          },
          {
            label: 'Computing spared',
            value: money(savings.saved_money, currency),
            hint: 'Price of the GPU hours that hits spared',
          },
          {
            label: 'Storage',
            value: money(savings.storage_money, currency),
            hint: 'Price of what was held, by the tiers of the cost model',
          },
          {
            label: 'GPU hours spared',
            value: amount(savings.gpu_hours),
            hint: 'Prefill that hits spared; the least that it can be, as positions in prompts are not recorded',
          },
          { label: 'Tokens hit', value: <Count value={savings.hit_tokens} unit="tokens" /> },
          { label: 'Of tokens asked for', value: share(savings.token_hit_rate) },
        ]}
      />
      {savings.gpu_hours === null && (
        <p className={classes.quiet}>No instance group has a cost model, so nothing is said in money.</p>
      )}
    </Panel>
  );
}
