import type { Process } from '../../api/types';
import layout from '../../components/layout.module.css';
import { Panel } from '../../components/Panel';
import { StatusBadge, type Tone } from '../../components/status/StatusBadge';
import { SimpleTable } from '../../components/table/SimpleTable';
import { Mono, Time } from '../../components/values';
import { absoluteTime, parseTime } from '../../lib/time';
import { duration, exact } from '../../lib/format';
import { useNow } from '../../lib/useNow';
import classes from './Overview.module.css';

const STATES: Record<Process['state'], { tone: Tone; word: string; hint: string }> = {
  ok: { tone: 'ok', word: 'Running', hint: 'Its last heartbeat is younger than 5 s.' },
  late: { tone: 'warn', word: 'Late', hint: 'It missed some heartbeats.' },
  lost: { tone: 'critical', word: 'Lost', hint: 'It has not been heard of for 15 s.' },
};

export function ProcessTable({ processes }: { processes: readonly Process[] }) {
  const now = useNow();
  const sound = processes.filter(({ state }) => state === 'ok').length;
  return (
    <Panel title="Processes" note={`${exact(sound)} of ${exact(processes.length)} running`} flush>
      {processes.length === 0 ? (
        <p className={layout.note}>No process has sent a heartbeat.</p>
      ) : (
        <SimpleTable
          label="Processes"
          rows={processes}
          rowKey={({ role, node, pid }) => `${role}:${node}:${pid}`}
          columns={[
            { header: 'Role', cell: ({ role }) => <strong className={classes.role}>{role}</strong> },
            {
              header: 'State',
              cell: ({ state }) => (
                <StatusBadge tone={STATES[state].tone} hint={STATES[state].hint} plain>
                  {STATES[state].word}
                </StatusBadge>
              ),
            },
            { header: 'Node', cell: ({ node, pid }) => <Mono>{`${node} · ${pid}`}</Mono>, hint: 'Host and process id' },
            {
              header: 'Up',
              align: 'right',
              cell: ({ started_at: started }) => (
                <span title={absoluteTime(started)}>{duration((now - (parseTime(started) ?? now)) / 1000)}</span>
              ),
            },
            { header: 'Seen', align: 'right', cell: ({ seen_at: seen }) => <Time value={seen} /> },
            {
              header: 'Restarts',
              align: 'right',
              cell: ({ restarts }) =>
                restarts > 0 ? <span className={classes.restarts}>{exact(restarts)}</span> : <span className="muted">0</span>,
            },
          ]}
        />
      )}
    </Panel>
  );
}
