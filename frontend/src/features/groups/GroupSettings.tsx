import type { InstanceGroup } from '../../api/types';
import { Facts, type Fact } from '../../components/Facts';
import { Panel } from '../../components/Panel';
import { Bytes, Count, Mono, Time } from '../../components/values';
import { duration, exact, milliseconds, share } from '../../lib/format';
import { preferenceText } from './preference';

const unset = <span className="muted">not set</span>;

export function ReclaimPanel({ group: { reclaim } }: { group: InstanceGroup }) {
  const facts: Fact[] = [
    { label: 'Policy', value: reclaim.policy.toUpperCase() },
    {
      label: 'Starts above',
      value: reclaim.used_ratio > 0 ? `${share(reclaim.used_ratio)} of the quota` : unset,
      hint: 'High watermark as a share of the quota (used_ratio)',
    },
    {
      label: 'Starts above (bytes)',
      value: reclaim.used_bytes > 0 ? <Bytes value={reclaim.used_bytes} /> : unset,
      hint: 'High watermark as a size (used_bytes); whichever is reached first counts',
    },
    {
      label: 'Stops below',
      value: reclaim.low_watermark_ratio != null ? share(reclaim.low_watermark_ratio) : unset,
      hint: 'Low watermark; without one reclaim stops at the high watermark',
    },
    {
      label: 'Only on storage',
      value: reclaim.storage_unique_name ? <Mono>{reclaim.storage_unique_name}</Mono> : <span className="muted">all</span>,
    },
    {
      label: 'Period',
      value: reclaim.trigger_period_seconds > 0 ? duration(reclaim.trigger_period_seconds) : unset,
    },
    {
      label: 'Step',
      value: stepText(reclaim),
      hint: 'How much one step of a run takes away',
    },
    { label: 'Delay before delete', value: milliseconds(reclaim.delay_before_delete_ms) },
    { label: 'Grace', value: reclaim.grace_seconds > 0 ? duration(reclaim.grace_seconds) : unset },
  ];
  return (
    <Panel title="Reclaim" note="settings only: nothing is evicted yet">
      <Facts facts={facts} />
    </Panel>
  );
}

function stepText({ step_size: size, step_percentage: percentage }: InstanceGroup['reclaim']) {
  const parts: string[] = [];
  if (size > 0) parts.push(`${exact(size)} blocks`);
  if (percentage > 0) parts.push(`${percentage} %`);
  return parts.length > 0 ? parts.join(' or ') : unset;
}

export function IndexerPanel({ group: { meta_indexer: indexer } }: { group: InstanceGroup }) {
  const cache = indexer.cache_policy;
  return (
    <Panel title="Meta index">
      <Facts
        wide
        facts={[
          { label: 'Keys at most', value: <Count value={indexer.max_key_count} unit="keys" /> },
          { label: 'Storage', value: indexer.storage_type || unset },
          { label: 'Storage URI', value: indexer.storage_uri ? <Mono>{indexer.storage_uri}</Mono> : unset },
          { label: 'Mutex shards', value: exact(indexer.mutex_shard_num) },
          { label: 'Keys in a batch', value: exact(indexer.batch_key_size) },
          { label: 'Search cache', value: `${exact(cache.capacity_mb)} MB, ${cache.type || 'lru'}` },
          { label: 'Cache shard bits', value: exact(cache.shard_bits) },
          { label: 'High-priority pool', value: share(cache.high_pri_pool_ratio) },
        ]}
      />
    </Panel>
  );
}

export function SettingsPanel({ group }: { group: InstanceGroup }) {
  return (
    <Panel title="Settings">
      <Facts
        facts={[
          {
            label: 'Instances at most',
            value: group.max_instance_count > 0 ? exact(group.max_instance_count) : <span className="muted">no limit</span>,
          },
          { label: 'Preference', value: preferenceText(group.prefer_strategy), hint: 'Which type of storage a write prefers' },
          { label: 'Global quota group', value: group.global_quota_group_name || unset },
          { label: 'User data', value: group.user_data ? <Mono>{group.user_data}</Mono> : unset },
          { label: 'Version', value: group.version, hint: 'Grows with every change; a write must name the newest' },
          { label: 'Changed', value: <Time value={group.updated_at} /> },
          { label: 'Created', value: <Time value={group.created_at} /> },
        ]}
      />
    </Panel>
  );
}
