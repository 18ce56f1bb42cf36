import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';

import { storagePath, storageQuery } from '../../api/resources';
import type { Storage } from '../../api/types';
import { CopyActions, CopyButton } from '../../components/CopyButton';
import { DetailFrame } from '../../components/DetailFrame';
import { Facts, Figures } from '../../components/Facts';
import { CapacityBar } from '../../components/meter/CapacityBar';
import { PageHeader } from '../../components/PageHeader';
import { Panel } from '../../components/Panel';
import { UnknownUsage } from '../../components/UnknownUsage';
import { StatusBadge, Tag } from '../../components/status/StatusBadge';
import { Bytes, Count, Mono, Time } from '../../components/values';
import { milliseconds, share } from '../../lib/format';
import { useRefetchInterval } from '../../live/LiveProvider';
import layout from '../../components/layout.module.css';
import { specRows, storageStatus, TYPE_NAMES, typeName } from './status';
import { DeparturePanel } from './DeparturePanel';
import { HealthChart } from './HealthChart';
import { HealthHistory } from './HealthHistory';
import { OrphansPanel } from './OrphansPanel';
import { SegmentsPanel } from './SegmentsPanel';
import { StorageActions } from './StorageActions';

const route = getRouteApi('/app/storages/$name');

export function StoragePage() {
  const { name } = route.useParams();
  const query = useQuery({ ...storageQuery(name), refetchInterval: useRefetchInterval() });
  return (
    <DetailFrame query={query} what="storage" name={name} parent={{ label: 'Storages', to: '/storages' }}>
      {(storage) => <StorageDetail storage={storage} />}
    </DetailFrame>
  );
}

function StorageDetail({ storage }: { storage: Storage }) {
  const status = storageStatus(storage);
  return (
    <>
      <PageHeader
        title={storage.name}
        isId
        parent={{ label: 'Storages', to: '/storages' }}
        badges={
          <>
            <StatusBadge tone={status.tone} hint={status.hint}>
              {status.word}
            </StatusBadge>
            <Tag hint={TYPE_NAMES[storage.type]?.hint ?? ''}>{typeName(storage.type)}</Tag>
            <CopyActions id={storage.name} path={storagePath(storage.name)} />
          </>
        }
        actions={<StorageActions storage={storage} />}
        summary={storage.maintenance_note ? `Note: ${storage.maintenance_note}` : status.hint}
      />
      <div className={layout.columns}>
        <div className={layout.stack}>
          <DeparturePanel storage={storage} />
          <UsagePanel storage={storage} />
          <SegmentsPanel storage={storage} />
          <HealthChart name={storage.name} />
          <HealthHistory name={storage.name} />
          <OrphansPanel storage={storage} />
          <SpecPanel storage={storage} />
          <GroupsPanel storage={storage} />
        </div>
        <div className={layout.stack}>
          <HealthPanel storage={storage} />
          <SettingsPanel storage={storage} />
        </div>
      </div>
    </>
  );
}

function UsagePanel({ storage }: { storage: Storage }) {
  const { usage } = storage;
  if (!usage) return <UnknownUsage />;
  return (
    <Panel title="Usage">
      <CapacityBar
        parts={[
          {
            key: 'used',
            label: 'Used',
            value: usage.used_bytes - usage.pending_bytes,
            hint: 'Blocks being written or served',
          },
          { key: 'pending', label: 'Pending deletion', value: usage.pending_bytes, hint: 'Not yet given back' },
        ]}
        limit={storage.capacity_bytes}
        limitLabel="Capacity"
        high={storage.high_watermark_ratio}
        low={storage.low_watermark_ratio}
      />
      <div className={layout.spaced}>
        <Figures
          figures={[
            { label: 'Blocks', value: <Count value={usage.blocks} unit="blocks" /> },
            {
              label: 'Mean block',
              value: <Bytes value={usage.blocks ? Math.round(usage.used_bytes / usage.blocks) : null} />,
            },
            { label: 'Groups', value: storage.groups.length },
          ]}
        />
      </div>
    </Panel>
  );
}

const HEALTH = {
  ok: { tone: 'ok', word: 'Healthy' },
  failing: { tone: 'critical', word: 'Failing' },
  unknown: { tone: 'unknown', word: 'Unknown' },
} as const;

function HealthPanel({ storage: { health } }: { storage: Storage }) {
  const { tone, word } = HEALTH[health.state];
  return (
    <Panel title="Health">
      <Facts
        facts={[
          {
            label: 'State',
            value: (
              <StatusBadge tone={tone} plain>
                {word}
              </StatusBadge>
            ),
          },
          { label: 'Last check', value: <Time value={health.checked_at} missing="never" /> },
          { label: 'Latency', value: milliseconds(health.latency_ms) },
          { label: 'Message', value: health.message || <span className="muted">none</span> },
          ...(health.full ? [{ label: 'Full', value: health.full_reason || 'it takes no new blocks' }] : []),
          {
            label: 'Device',
            value:
              health.device_capacity_bytes === null ? (
                <span className="muted">not known</span>
              ) : (
                <>
                  <Bytes value={health.device_used_bytes} /> of <Bytes value={health.device_capacity_bytes} />
                </>
              ),
            hint: 'What is behind the storage, whoever uses it',
          },
          { label: 'Room', value: <Bytes value={health.free_bytes} />, hint: 'Below the high watermark, as placement knows it' },
        ]}
      />
    </Panel>
  );
}

function SpecPanel({ storage }: { storage: Storage }) {
  return (
    <Panel
      title="Configuration"
      actions={<CopyButton value={JSON.stringify(storage.spec, null, 2)} label="Copy the spec as JSON" />}
    >
      <Facts
        facts={specRows(storage.spec).map(({ name, value }) => ({
          label: name,
          value: value ? <Mono>{value}</Mono> : <span className="muted">empty</span>,
        }))}
      />
    </Panel>
  );
}

function SettingsPanel({ storage }: { storage: Storage }) {
  return (
    <Panel title="Settings">
      <Facts
        facts={[
          { label: 'Number', value: storage.number, hint: 'Stands for the storage in block records; never reused' },
          {
            label: 'Weight',
            value: storage.weight ?? <span className="muted">by type</span>,
            hint: 'Share of reads among several serving locations',
          },
          { label: 'High watermark', value: share(storage.high_watermark_ratio) },
          { label: 'Low watermark', value: share(storage.low_watermark_ratio) },
          {
            label: 'Check when opened',
            value: storage.check_storage_available_when_open ? 'yes' : 'no',
            hint: 'Whether adding or enabling it fails while it cannot be reached',
          },
          { label: 'Version', value: storage.version, hint: 'Grows with every change; a write must name the newest' },
          { label: 'Changed', value: <Time value={storage.updated_at} /> },
          { label: 'Created', value: <Time value={storage.created_at} /> },
        ]}
      />
    </Panel>
  );
}

function GroupsPanel({ storage }: { storage: Storage }) {
  return (
    <Panel title="Groups using it" note={storage.groups.length}>
      {storage.groups.length === 0 ? (
        <p className="muted">No instance group names it as a candidate.</p>
      ) : (
        <ul className={layout.links}>
          {storage.groups.map((name) => (
            <li key={name}>
              <Link to="/groups/$name" params={{ name }}>
                <Mono>{name}</Mono>
              </Link>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}
