import type { InstanceGroup } from '../../api/types';
import { Facts, type Fact } from '../../components/Facts';
import { Panel } from '../../components/Panel';
import { Bytes, Count, Mono, Time } from '../../components/values';
import { duration, exact, milliseconds, share } from '../../lib/format';
import { preferenceText } from './preference';
import { lowWatermark } from './reclaim';

const unset = <span className="muted">not set</span>;

const BUDGETS: Record<InstanceGroup['reclaim']['budget'], string> = {
  group_lru: 'who has the coldest',
  usage_proportional: 'the same share of each',
  fixed: 'equal amounts of each',
};

export function ReclaimPanel({ group: { reclaim, quota } }: { group: InstanceGroup }) {
  const low = lowWatermark(reclaim, quota.capacity_bytes);
  const facts: Fact[] = [
    { label: 'Policy', value: reclaim.policy.toUpperCase() },
    {
      label: 'Starts at',
      value: startText(reclaim),
      hint: 'High watermark: a share of the quota, of each type’s quota and of the keys at most (used_ratio)',
    },
    {
      label: 'Starts at (bytes)',
      value: reclaim.used_bytes > 0 ? <Bytes value={reclaim.used_bytes} /> : unset,
      hint: 'High watermark as a size (used_bytes); counts only where there is no share',
    },
    {
      label: 'Ends at',
      value: reclaim.low_watermark_ratio != null ? share(reclaim.low_watermark_ratio) : share(low),
      hint: 'Low watermark; without one five points below the high one, or a tenth of it if that is less',
    },
    {
      label: 'First from storage',
      value: reclaim.storage_unique_name ? <Mono>{reclaim.storage_unique_name}</Mono> : <span className="muted">any</span>,
      hint: 'A preference: blocks elsewhere go as well, after those',
    },
    { label: 'Budget of instances', value: BUDGETS[reclaim.budget] },
    {
      label: 'Unused at most',
      value: reclaim.ttl_seconds > 0 ? duration(reclaim.ttl_seconds) : unset,
      hint: 'Policy TTL: what was not used for so long goes without any mark',
    },
    {
      label: 'Period',
      hint: 'Least time between two runs that watermarks set off',
      value: reclaim.trigger_period_seconds > 0 ? duration(reclaim.trigger_period_seconds) : unset,
    },
    {
      label: 'Step',
      value: stepText(reclaim),
      hint: 'How much one step of a run takes away',
    },
    { label: 'Delay before delete', value: milliseconds(reclaim.delay_before_delete_ms) },
    {
      label: 'Grace',
      value: reclaim.grace_seconds > 0 ? duration(reclaim.grace_seconds) : unset,
      hint: 'Blocks finished less than that long ago stay',
    },
  ];
  return (
    <Panel title="Reclaim">
      <Facts facts={facts} />
    </Panel>
  );
}

function startText({ used_ratio: ratio }: InstanceGroup['reclaim']) {
  if (ratio <= 0) return unset;
  return ratio <= 1 ? `${share(ratio)} of the quota` : <span className="muted">never</span>;
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
