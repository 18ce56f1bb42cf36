import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';

import { groupPath, groupQuery } from '../../api/resources';
import type { InstanceGroup } from '../../api/types';
import { CopyActions } from '../../components/CopyButton';
import { DetailFrame } from '../../components/DetailFrame';
import { Figures } from '../../components/Facts';
import layout from '../../components/layout.module.css';
import { CapacityBar } from '../../components/meter/CapacityBar';
import { Meter } from '../../components/meter/Meter';
import { PageHeader } from '../../components/PageHeader';
import { Panel } from '../../components/Panel';
import { StatusBadge } from '../../components/status/StatusBadge';
import { UnknownUsage } from '../../components/UnknownUsage';
import { Count, HitRate } from '../../components/values';
import { bytes, exact, share } from '../../lib/format';
import { useRefetchInterval } from '../../live/LiveProvider';
import { OtherCapacities } from '../estimates/OtherCapacities';
import { typeName } from '../storages/status';
import { CandidatesPanel } from './CandidatesPanel';
import { GroupActions } from './GroupActions';
import { IndexerPanel, ReclaimPanel, SettingsPanel } from './GroupSettings';
import { GroupInstances } from './GroupInstances';
import classes from './groups.module.css';
import { heldBytes, highWatermark, liveBytes, lowWatermark } from './reclaim';

const route = getRouteApi('/app/groups/$name');
const PARENT = { label: 'Instance groups', to: '/groups' } as const;

export function GroupPage() {
  const { name } = route.useParams();
  const query = useQuery({ ...groupQuery(name), refetchInterval: useRefetchInterval() });
  return (
    <DetailFrame query={query} what="instance group" name={name} parent={PARENT}>
      {(group) => <GroupDetail group={group} />}
    </DetailFrame>
  );
}

function GroupDetail({ group }: { group: InstanceGroup }) {
  return (
    <>
      <PageHeader
        title={group.name}
        isId
        parent={PARENT}
        badges={
          <>
            <QuotaBadge group={group} />
            <CopyActions id={group.name} path={groupPath(group.name)} />
          </>
        }
        actions={<GroupActions group={group} />}
      />
      <div className={layout.columns}>
        <div className={layout.stack}>
          <UsagePanel group={group} />
          <OtherCapacities of={{ group: group.name }} />
          <CandidatesPanel group={group} />
          <GroupInstances group={group} />
          <IndexerPanel group={group} />
        </div>
        <div className={layout.stack}>
          <TypesPanel group={group} />
          <ReclaimPanel group={group} />
          <SettingsPanel group={group} />
        </div>
      </div>
    </>
  );
}

function QuotaBadge({ group }: { group: InstanceGroup }) {
  if (!group.usage) return <StatusBadge tone="unknown">Usage unknown</StatusBadge>;
  const quota = group.quota.capacity_bytes;
  const used = heldBytes(group.usage);
  const high = highWatermark(group.reclaim, quota);
  if (used >= quota) {
    return (
      <StatusBadge tone="critical" hint={`${bytes(used)} of ${bytes(quota)}: new blocks are refused`}>
        Full
      </StatusBadge>
    );
  }
  if (high !== null && liveBytes(group.usage) >= high * quota) {
    return (
      <StatusBadge tone="warn" hint={`Reclaim runs from ${share(high)} on`}>
        Above high watermark
      </StatusBadge>
    );
  }
  return (
    <StatusBadge tone="ok" hint="Below the high watermark">
      Within quota
    </StatusBadge>
  );
}

function UsagePanel({ group }: { group: InstanceGroup }) {
  const { usage, quota, reclaim, traffic } = group;
  if (!usage) return <UnknownUsage title="Usage against quota" />;
  return (
    <Panel title="Usage against quota">
      <CapacityBar
        parts={[
          { key: 'used', label: 'Used', value: usage.used_bytes - usage.pending_bytes, hint: 'Blocks being written or served' },
          { key: 'reserved', label: 'Reserved', value: usage.reserved_bytes, hint: 'Promised to open write sessions' },
          { key: 'pending', label: 'Pending deletion', value: usage.pending_bytes, hint: 'Not yet given back' },
        ]}
        limit={quota.capacity_bytes}
        limitLabel="Quota"
        high={highWatermark(reclaim, quota.capacity_bytes)}
        low={lowWatermark(reclaim, quota.capacity_bytes)}
      />
      <div className={layout.spaced}>
        <Figures
          figures={[
            {
              label: 'Hit rate',
              value: <HitRate traffic={traffic} />,
            },
            { label: 'Requested blocks', value: <Count value={traffic?.requested_blocks} unit="blocks" /> },
            { label: 'Hit blocks', value: <Count value={traffic?.hit_blocks} unit="blocks" /> },
            { label: 'Refused by quota', value: <Count value={traffic?.quota_refused} unit="writes" /> },
            { label: 'Blocks held', value: <Count value={usage.blocks} unit="blocks" /> },
            {
              label: 'Instances',
              value: `${exact(group.instance_count)}${group.max_instance_count > 0 ? ` of ${exact(group.max_instance_count)}` : ''}`,
            },
          ]}
        />
      </div>
    </Panel>
  );
}

/** A type is worth a row when it holds something or has a limit of its own. */
function TypesPanel({ group }: { group: InstanceGroup }) {
  const limits = new Map(Object.entries(group.quota.per_type));
  const used = new Map(Object.entries(group.usage?.per_type ?? {}));
  const types = [...new Set([...limits.keys(), ...used.keys()])].sort();
  return (
    <Panel title="By storage type">
      {types.length === 0 ? (
        <p className="muted">Nothing is kept yet, and no type has a limit of its own.</p>
      ) : (
        <div className={classes.types}>
          {types.map((type) => (
            <div key={type}>
              <span>{typeName(type)}</span>
              <Meter label={`Limit of ${typeName(type)}`} used={used.get(type) ?? 0} limit={limits.get(type) ?? null} />
            </div>
          ))}
        </div>
      )}
    </Panel>
  );
}
