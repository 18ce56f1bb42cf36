/** Shapes of REST and of the live topics, after docs/api.md. */

export type Role = 'viewer' | 'operator' | 'admin' | 'engine';
export type ThemeChoice = 'system' | 'light' | 'dark';

export interface Session {
  authenticated: boolean;
  username: string | null;
  role: Role | null;
  theme: ThemeChoice;
}

export interface Page<T> {
  count: number;
  next: string | null;
  previous: string | null;
  results: T[];
}

export type StorageType = 'nfs' | 'hf3fs' | 'vcns_hf3fs' | 'mooncake' | 'tair_mempool';
export type HealthState = 'ok' | 'failing' | 'unknown';
export type BytesByType = Partial<Record<StorageType, number>>;

export interface StorageHealth {
  state: HealthState;
  message: string;
  checked_at: string | null;
  latency_ms: number | null;
}

export interface StorageUsage {
  used_bytes: number;
  pending_bytes: number;
  blocks: number;
}

export interface Storage {
  name: string;
  number: number;
  type: StorageType;
  spec: Record<string, unknown>;
  enabled: boolean;
  draining: boolean;
  weight: number | null;
  capacity_bytes: number | null;
  high_watermark_ratio: number | null;
  low_watermark_ratio: number | null;
  maintenance_note: string;
  check_storage_available_when_open: boolean;
  health: StorageHealth;
  /** Null while the index does not answer. */
  usage: StorageUsage | null;
  groups: string[];
  version: number;
  created_at: string;
  updated_at: string;
}

export interface Quota {
  capacity_bytes: number;
  per_type: BytesByType;
}

export interface Reclaim {
  policy: string;
  storage_unique_name: string;
  used_ratio: number;
  used_bytes: number;
  low_watermark_ratio: number | null;
  trigger_period_seconds: number;
  step_size: number;
  step_percentage: number;
  delay_before_delete_ms: number;
  grace_seconds: number;
}

export interface MetaIndexer {
  max_key_count: number;
  mutex_shard_num: number;
  batch_key_size: number;
  storage_type: string;
  storage_uri: string;
  cache_policy: { capacity_mb: number; type: string; shard_bits: number; high_pri_pool_ratio: number };
}

export interface GroupUsage {
  used_bytes: number;
  reserved_bytes: number;
  pending_bytes: number;
  blocks: number;
  per_type: BytesByType;
}

export interface BlockTraffic {
  requested_blocks: number;
  hit_blocks: number;
  hit_rate: number | null;
}

export interface InstanceGroup {
  name: string;
  storage_candidates: string[];
  prefer_strategy: string;
  quota: Quota;
  reclaim: Reclaim;
  max_instance_count: number;
  meta_indexer: MetaIndexer;
  global_quota_group_name: string;
  user_data: string;
  version: number;
  instance_count: number;
  /** Usage and traffic are null while the index does not answer. */
  usage: GroupUsage | null;
  traffic: BlockTraffic | null;
  created_at: string;
  updated_at: string;
}

export interface ModelDeployment {
  model_name: string;
  dtype: string;
  use_mla: boolean;
  tp_size: number;
  dp_size: number;
  lora_name: string;
  pp_size: number;
  extra: string;
  user_data: string;
  use_eagle_pop: boolean;
}

export interface Instance {
  instance_id: string;
  instance_group: string;
  number: number;
  block_size: number;
  shards: number;
  default_query_type: number;
  location_spec_infos: { name: string; size: number }[];
  location_spec_groups: { name: string; spec_names: string[] }[];
  model_deployment: ModelDeployment;
  /** What comes from the index is null while it does not answer. */
  usage: { used_bytes: number; pending_bytes: number; blocks: number; writing_blocks: number } | null;
  open_write_sessions: number | null;
  traffic: (BlockTraffic & { requests: number; written_blocks: number }) | null;
  registered_at: string;
  last_seen_at: string | null;
}

export interface HistoryPoint {
  at: string;
  requests_per_second: number;
  requested_blocks: number;
  hit_blocks: number;
  used_bytes: number;
}

export interface Rpc {
  name: string;
  per_second: number;
  p50_ms: number | null;
  p99_ms: number | null;
  errors: number;
}

export interface Process {
  role: string;
  node: string;
  pid: number;
  state: 'ok' | 'late' | 'lost';
  started_at: string;
  seen_at: string;
  restarts: number;
}

export interface Overview {
  requests_per_second: number;
  requested_blocks: number;
  hit_blocks: number;
  hit_rate: number | null;
  totals: { requests: number; requested_blocks: number; hit_blocks: number; written_blocks: number };
  used_bytes: number;
  reserved_bytes: number;
  pending_bytes: number;
  quota_bytes: number;
  blocks: number;
  open_write_sessions: number;
  storages_healthy: number;
  storages_total: number;
  groups_total: number;
  instances_total: number;
  processes: Process[];
  rpcs: Rpc[];
  verdict: { state: 'ok' | 'degraded' | 'down'; reasons: string[] };
  history: HistoryPoint[];
}
