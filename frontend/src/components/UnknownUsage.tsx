import { Panel } from './Panel';

/** Settings come from the database, usage from the index: one can be shown without the other. */
export function UnknownUsage({ title = 'Usage' }: { title?: string }) {
  return (
    <Panel title={title}>
      <p className="muted">Not known: the index (Redis) does not answer. Settings below are as they were saved.</p>
    </Panel>
  );
}
