import { SegmentedControl } from '@mantine/core';
import { IconBellCheck } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import type { ColumnDef } from '@tanstack/react-table';
import { useMemo, useState } from 'react';

import { endpoint } from '../../api/endpoints';
import { alertsQuery } from '../../api/resources';
import type { Alert } from '../../api/types';
import { CopyActions } from '../../components/CopyButton';
import { EmptyState } from '../../components/EmptyState';
import layout from '../../components/layout.module.css';
import { PageHeader } from '../../components/PageHeader';
import { StatusBadge, Tag, type Tone } from '../../components/status/StatusBadge';
import { DataTable } from '../../components/table/DataTable';
import { Mono, Time } from '../../components/values';
import { listQuery, type AlertView } from '../../lib/listSearch';
import { useFiringAlerts, useRefetchInterval } from '../../live/LiveProvider';
import { AlertActions, SilenceDialog } from './AlertActions';
import classes from './AlertsPage.module.css';
import { bellWords, figureOf, SEVERITIES } from './severity';
import { Silences } from './Silences';
import { Subject } from './Subject';

const route = getRouteApi('/app/alerts');

const STATES: Record<Alert['state'], { tone: Tone; word: string; hint: string }> = {
  pending: { tone: 'unknown', word: 'Pending', hint: 'Holds, not for long enough yet' },
  firing: { tone: 'critical', word: 'Firing', hint: 'Holds now' },
  resolved: { tone: 'ok', word: 'Resolved', hint: 'Is over' },
};

const VIEWS: { value: AlertView; label: string }[] = [
  { value: 'firing', label: 'Firing' },
  { value: 'pending', label: 'Pending' },
  { value: 'resolved', label: 'Resolved' },
  { value: 'all', label: 'All' },
];

function columnsWith(onSilence: (alert: Alert) => void): ColumnDef<Alert>[] {
  return [
    {
      id: 'severity',
      header: 'Severity',
      cell: ({ row: { original: alert } }) => (
        <StatusBadge tone={SEVERITIES[alert.severity].tone} hint={SEVERITIES[alert.severity].hint}>
          {SEVERITIES[alert.severity].word}
        </StatusBadge>
      ),
    },
    {
      id: 'subject',
      header: 'Subject',
      meta: { sort: 'subject' },
      cell: ({ row }) => <Subject alert={row.original} />,
    },
    {
      id: 'message',
      header: 'What is wrong',
      cell: ({ row: { original: alert } }) => <span className={classes.message}>{alert.message}</span>,
    },
    {
      id: 'value',
      header: 'Value',
      meta: { align: 'right' },
      cell: ({ row }) => figureOf(row.original),
    },
    { id: 'rule', header: 'Rule', cell: ({ row }) => <Mono>{row.original.rule}</Mono> },
    {
      id: 'state',
      header: 'State',
      cell: ({ row: { original: alert } }) => (
        <span className={classes.states}>
          <StatusBadge tone={STATES[alert.state].tone} hint={STATES[alert.state].hint} plain>
            {STATES[alert.state].word}
          </StatusBadge>
          {alert.acknowledged && <Tag hint={alert.acknowledge_note}>{`by ${alert.acknowledged_by}`}</Tag>}
          {alert.silenced && alert.state !== 'resolved' && <Tag hint="Receivers are not told">Silenced</Tag>}
        </span>
      ),
    },
    { id: 'since', header: 'Since', meta: { sort: 'since' }, cell: ({ row }) => <Time value={row.original.since} /> },
    {
      id: 'over',
      header: 'Over',
      meta: { sort: 'resolved_at' },
      cell: ({ row }) => <Time value={row.original.resolved_at} missing="" />,
    },
    {
      id: 'actions',
      header: 'Actions',
      cell: ({ row: { original: alert } }) =>
        alert.state === 'firing' && (
          <span className={classes.actions}>
            <AlertActions alert={alert} onSilence={() => onSilence(alert)} />
          </span>
        ),
    },
  ];
}

export function AlertsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const [silencing, setSilencing] = useState<Alert | null>(null);
  const columns = useMemo(() => columnsWith(setSilencing), []);
  const query = useQuery({ ...alertsQuery(search), refetchInterval: useRefetchInterval() });
  const { data: firing } = useFiringAlerts();
  const state = search.state ?? 'firing';
  return (
    <>
      <PageHeader title="Alerts" summary={`${bellWords(firing)}.`} />
      <div className={layout.stack}>
        <DataTable
          id="alerts"
          label="Alerts"
          noun={['alert', 'alerts']}
          query={query}
          columns={columns}
          rowId={({ id }) => String(id)}
          onOpen={(alert) => {
            if (alert.subject_kind === 'storage') {
              void navigate({ to: '/storages/$name', params: { name: alert.subject } });
            }
          }}
          search={search}
          defaultSort="-id"
          onSearch={(next, replace) =>
            void navigate({ search: { ...next, ...(search.state ? { state: search.state } : {}) }, replace: replace ?? false })
          }
          filterHint="Filter by rule, subject or message"
          actions={
            <>
              <SegmentedControl
                size="xs"
                aria-label="Which alerts"
                data={VIEWS}
                value={state}
                onChange={(next) => void navigate({ search: next === 'firing' ? {} : { state: next as AlertView } })}
              />
              <CopyActions path={endpoint('alerts')} query={{ ...listQuery(search, '-id'), state }} />
            </>
          }
          empty={
            <EmptyState icon={<IconBellCheck size={28} stroke={1.5} />} title={EMPTY[state].title}>
              {EMPTY[state].text}
            </EmptyState>
          }
        />
        <Silences />
      </div>
      {silencing && <SilenceDialog alert={silencing} onClose={() => setSilencing(null)} />}
    </>
  );
}

const EMPTY: Record<AlertView, { title: string; text: string }> = {
  firing: {
    title: 'Nothing is firing',
    text: 'Rules are evaluated every 5 s. They are changed over REST (/api/v1/alert-rules/), as are the webhooks that are told.',
  },
  pending: { title: 'Nothing is pending', text: 'Here is what holds, but not for as long as its rule asks for.' },
  resolved: { title: 'Nothing was resolved yet', text: 'Alerts that are over are kept for 30 days.' },
  all: { title: 'There was no alert yet', text: 'Alerts that are over are kept for 30 days.' },
};
