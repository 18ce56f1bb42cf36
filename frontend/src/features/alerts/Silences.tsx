import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';

import { silenceEnd, silencesQuery } from '../../api/resources';
import { ActionButton } from '../../components/actions/ActionButton';
import layout from '../../components/layout.module.css';
import { notifyDone, notifyError } from '../../components/notify';
import { Panel } from '../../components/Panel';
import { SimpleTable } from '../../components/table/SimpleTable';
import { Mono, Time } from '../../components/values';
import { useRefetchInterval } from '../../live/LiveProvider';

/** The silences that last; they end by themselves, or here. */
export function Silences() {
  const { data, error } = useQuery({ ...silencesQuery, refetchInterval: useRefetchInterval() });
  const client = useQueryClient();
  const end = useMutation({
    mutationFn: silenceEnd,
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ['alerts'] });
      notifyDone('The silence is over');
    },
    onError: (failure) => notifyError('The silence could not be ended', failure),
  });
  const rows = data?.results ?? [];
  return (
    <Panel title="Silences" note={data?.count} flush>
      {rows.length === 0 ? (
        <p className={layout.note}>{error?.message ?? (data ? 'No alert is silenced.' : 'Loading…')}</p>
      ) : (
        <SimpleTable
          label="Silences"
          rows={rows}
          rowKey={({ id }) => String(id)}
          columns={[
            { header: 'Rule', cell: ({ rule }) => (rule ? <Mono>{rule}</Mono> : <span className="muted">every rule</span>) },
            {
              header: 'Subject',
              cell: ({ subject }) => (subject ? <Mono>{subject}</Mono> : <span className="muted">everything</span>),
            },
            { header: 'Reason', cell: ({ reason }) => reason },
            { header: 'By', cell: ({ created_by: by }) => by },
            { header: 'Ends', cell: ({ until }) => <Time value={until} /> },
            {
              header: 'Action',
              cell: ({ id }) => (
                <ActionButton needs="operator" size="compact-xs" loading={end.isPending && end.variables === id} onClick={() => end.mutate(id)}>
                  End now
                </ActionButton>
              ),
            },
          ]}
        />
      )}
    </Panel>
  );
}
