import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { orphanRunsQuery, orphansCancel, orphansSearch } from '../../api/resources';
import type { OrphanRun, Storage } from '../../api/types';
import { ActionButton } from '../../components/actions/ActionButton';
import { ConfirmDialog } from '../../components/actions/ConfirmDialog';
import { Figures } from '../../components/Facts';
import { notifyError } from '../../components/notify';
import { Panel } from '../../components/Panel';
import { StatusBadge } from '../../components/status/StatusBadge';
import { Bytes, Count, Time } from '../../components/values';
import { bytes, plural } from '../../lib/format';
import { isUnderWay, ORPHAN_STATES, orphansWords } from './orphans';
import classes from './storages.module.css';

const UNDER_WAY_MS = 2_000;
const AT_REST_MS = 15_000;

/** Objects that no block refers to: looked for first, deleted only when told so. */
export function OrphansPanel({ storage }: { storage: Storage }) {
  const [isAsking, setAsking] = useState(false);
  const client = useQueryClient();
  const { data, error } = useQuery({
    ...orphanRunsQuery(storage.name),
    refetchInterval: ({ state }) => (isUnderWay(state.data?.results[0]) ? UNDER_WAY_MS : AT_REST_MS),
  });
  const refresh = () => void client.invalidateQueries({ queryKey: orphanRunsQuery(storage.name).queryKey });
  const search = useMutation({
    mutationFn: (dryRun: boolean) => orphansSearch(storage.name, dryRun),
    onSuccess: () => {
      setAsking(false);
      refresh();
    },
    onError: (failure, dryRun) => dryRun && notifyError('The search could not begin', failure),
  });
  const cancel = useMutation({
    mutationFn: (id: number) => orphansCancel(storage.name, id),
    onSettled: refresh,
    onError: (failure) => notifyError('The search could not be stopped', failure),
  });
  const run = data?.results[0];
  const found = run?.state === 'done' && run.dry_run ? run.figures.orphans : 0;
  return (
    <Panel
      title="Orphans"
      note="objects on the storage that no block refers to"
      actions={
        <>
          {run && isUnderWay(run) ? (
            <ActionButton needs="operator" size="compact-xs" loading={cancel.isPending} onClick={() => cancel.mutate(run.id)}>
              Stop
            </ActionButton>
          ) : (
            <ActionButton
              needs="operator"
              size="compact-xs"
              loading={search.isPending && !isAsking}
              onClick={() => search.mutate(true)}
            >
              Look for orphans
            </ActionButton>
          )}
          {found > 0 && (
            <ActionButton needs="operator" size="compact-xs" onClick={() => setAsking(true)}>
              Delete them
            </ActionButton>
          )}
        </>
      }
    >
      {run ? <RunFigures run={run} /> : <p className="muted">{error?.message ?? 'Nobody has looked for any yet. Looking changes nothing.'}</p>}
      {isAsking && run && (
        <ConfirmDialog
          opened
          onClose={() => setAsking(false)}
          title="Delete the orphans"
          consequences={[
            `${plural(run.figures.orphans, 'object')} (${bytes(run.figures.orphan_bytes)}) were found; they are looked for anew and deleted.`,
            'Only what no block refers to, and what was not written just now, goes.',
            'It cannot be undone.',
          ]}
          typedName={storage.name}
          confirmLabel="Delete them"
          danger
          pending={search.isPending}
          error={search.error}
          onConfirm={() => search.mutate(false)}
        />
      )}
    </Panel>
  );
}

function RunFigures({ run }: { run: OrphanRun }) {
  const { figures } = run;
  const { tone, word } = ORPHAN_STATES[run.state];
  return (
    <div className={classes.fields}>
      <p aria-live="polite">
        <StatusBadge tone={tone} plain>
          {word}
        </StatusBadge>{' '}
        {orphansWords(run)}
      </p>
      <Figures
        figures={[
          { label: 'Looked at', value: <Count value={figures.looked_at} unit="objects" /> },
          { label: 'Orphans', value: <Count value={figures.orphans} unit="objects" /> },
          { label: 'Their bytes', value: <Bytes value={figures.orphan_bytes} /> },
          { label: 'Deleted', value: <Count value={figures.deleted} unit="objects" /> },
          { label: 'Too young', value: <Count value={figures.young} unit="objects" />, hint: 'Written just now: a write may be under way' },
          { label: 'Asked', value: <Time value={run.asked_at} /> },
        ]}
      />
    </div>
  );
}
