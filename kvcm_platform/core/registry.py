"""The registry: what operators configured, in the form that the data plane works with.

The control plane owns these objects (rows in the database); on each commit it publishes the
changed ones to Redis, one entry an object. Metadata processes read them and hold them as a
`Registry`. Everything here is plain data: `to_dict` and `*_from_dict` are exact inverses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from .types import Placement, PreferStrategy, ReclaimBudget, ReclaimPolicy, Retention, StorageType


@dataclass(frozen=True, slots=True)
class PoolSegment:
    """Memory that one agent of a memory pool exports, for as long as that memory lives.

    `number` stands for it in block records, out of the same numbers as storages': a segment that is
    lost takes its number along, and with it every block that it held.
    """

    node_id: str
    segment_id: str
    number: int
    address: str
    """host:port of the agent."""
    size_bytes: int
    is_available: bool = True


@dataclass(frozen=True, slots=True)
class StorageEntry:
    """One storage. `number` (1..65535) stands for it in block records and is never reused."""

    name: str
    number: int
    type: StorageType
    spec: Mapping[str, Any]
    """The members of the type's spec message, by their protocol names (WIRE.md B)."""
    is_enabled: bool = True
    is_draining: bool = False
    is_available: bool = True
    """Result of the background checks; never probed on a request's path."""
    unavailable_reason: str = ""
    is_full: bool = False
    """It can be read but takes no new blocks; `unavailable_reason` says why."""
    check_storage_available_when_open: bool = False
    weight: int | None = None
    capacity_bytes: int | None = None
    free_bytes: int | None = None
    """Room as of the last check, coarse: it is published only when it changed a lot. None = unknown."""
    high_bytes: int | None = None
    """Live bytes of the index here (core/reclaim/marks.py) from which on groups give blocks back, down to
    `low_bytes`. As of the last check and coarse, too; None = nothing says how much it holds."""
    low_bytes: int | None = None
    segments: tuple[PoolSegment, ...] = ()
    """Of a memory pool: its living segments. Blocks lie on one of them, never on the storage's own number."""
    lost_numbers: tuple[int, ...] = ()
    """Segments that are gone for good while the index still has blocks of theirs (duties/clearing.py)."""
    is_leaving: bool = False
    """It is being removed: neither read nor written, its blocks go first (duties/clearing.py)."""
    is_abandoned: bool = False
    """Of one that leaves: it will not answer any more, so its blocks are forgotten and its objects left."""
    version: int = 0

    @property
    def is_served(self) -> bool:
        """Whether its serving locations may be handed to readers."""
        return self.is_enabled and self.is_available and not self.is_leaving

    @property
    def is_writable(self) -> bool:
        return self.is_served and not self.is_draining and not self.is_full

    @property
    def numbers(self) -> tuple[int, ...]:
        """Every number that stands for it or a part of it in block records."""
        return (self.number, *(segment.number for segment in self.segments), *self.lost_numbers)

    @property
    def cleared_numbers(self) -> tuple[int, ...]:
        """The numbers on which no block may stay."""
        return self.numbers if self.is_leaving else self.lost_numbers

    def has_lost(self, number: int) -> bool:
        """Whether objects under this number need no deletion: their memory is gone, or they are given up."""
        return self.is_abandoned or number in self.lost_numbers

    @property
    def served_numbers(self) -> tuple[int, ...]:
        """The numbers whose blocks readers may get now."""
        if not self.is_served:
            return ()
        if self.type is StorageType.TAIR_MEMPOOL:
            return tuple(segment.number for segment in self.segments if segment.is_available)
        return (self.number,)

    @property
    def refusal(self) -> str:
        """Why no new block may be placed here; empty when one may."""
        if self.is_leaving:
            return "being removed"
        if not self.is_enabled:
            return "disabled"
        if self.is_draining:
            return "draining"
        if not self.is_available:
            return self.unavailable_reason or "unavailable"
        if self.is_full:
            return self.unavailable_reason or "full"
        return ""


@dataclass(frozen=True, slots=True)
class Quota:
    """Hard limits in bytes; a type without an entry has no limit of its own."""

    capacity_bytes: int
    per_type: Mapping[StorageType, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReclaimSettings:
    """When and how a group gives space back (WIRE.md 2.4). 0 or "" = unset."""

    policy: ReclaimPolicy = ReclaimPolicy.LRU
    storage_unique_name: str = ""
    used_ratio: float = 0.8
    used_bytes: int = 0
    low_watermark_ratio: float | None = None
    trigger_period_seconds: int = 0
    step_size: int = 0
    step_percentage: int = 0
    delay_before_delete_ms: int = 1000
    grace_seconds: int = 0
    """Blocks that were finished less than that long ago stay."""
    ttl_seconds: int = 0
    """Policy TTL: runs that were not used for so long go without any mark; 0 = under pressure alone."""
    budget: ReclaimBudget = ReclaimBudget.GROUP_LRU


@dataclass(frozen=True, slots=True)
class MigrationPolicy:
    """When cold blocks leave a storage for another, and when they come back (core/migration.py)."""

    source: str
    """Names of storages; one that does not exist yet moves nothing."""
    target: str
    trigger_ratio: float = 0.8
    """Used share of the source from which on blocks leave, down to `low_ratio`."""
    low_ratio: float = 0.7
    retention: Retention = Retention.DELETE_SOURCE
    promote_after_hits: int = 0
    """Recent uses after which blocks come back to the source; 0 = never."""
    max_bytes_per_second: int = 0
    """0 = no limit."""
    verify: bool = True
    """Whether each copy is read back and compared before it is served."""
    is_enabled: bool = True


@dataclass(frozen=True, slots=True)
class CachePolicy:
    capacity_mb: int = 1024
    type: str = "lru"
    shard_bits: int = 6
    high_pri_pool_ratio: float = 0.0


@dataclass(frozen=True, slots=True)
class MetaIndexerSettings:
    max_key_count: int = 1_000_000
    mutex_shard_num: int = 16
    batch_key_size: int = 16
    storage_type: str = "local"
    storage_uri: str = ""
    cache_policy: CachePolicy = field(default_factory=CachePolicy)


@dataclass(frozen=True, slots=True)
class FairnessLimits:
    """What keeps one group from starving the others (core/admission.py). 0 = no limit."""

    calls_per_second: int = 0
    """Queries and Starts."""
    blocks_per_second: int = 0
    """Blocks that queries and Starts name."""
    write_session_ratio: float = 0.0
    """Write sessions that the group's instances together hold open, as a share of what one may."""

    @property
    def has_rates(self) -> bool:
        return bool(self.calls_per_second or self.blocks_per_second)


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """One instance group. `number` names its keys in Redis and is never reused."""

    name: str
    number: int
    storage_candidates: tuple[str, ...]
    quota: Quota
    prefer_strategy: PreferStrategy = PreferStrategy.UNSPECIFIED
    reclaim: ReclaimSettings = field(default_factory=ReclaimSettings)
    meta_indexer: MetaIndexerSettings = field(default_factory=MetaIndexerSettings)
    max_instance_count: int = 0
    """0 = no limit."""
    global_quota_group_name: str = ""
    user_data: str = ""
    limits: FairnessLimits = field(default_factory=FairnessLimits)
    migration: MigrationPolicy | None = None
    placement: Placement = Placement.ORDERED
    version: int = 1
    """The optimistic lock that clients see."""


@dataclass(frozen=True, slots=True)
class LocationSpecInfo:
    """One named part of a block (for example one tensor-parallel rank) and its size in bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class LocationSpecGroup:
    name: str
    spec_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelDeployment:
    model_name: str
    dtype: str
    use_mla: bool = False
    tp_size: int = 0
    dp_size: int = 0
    lora_name: str = ""
    pp_size: int = 0
    extra: str = ""
    user_data: str = ""
    use_eagle_pop: bool = False


MAX_SHARDS = 16
"""Hash tags of one instance."""

VALUE_MODEL = "kvcm.kv_meta"
"""The model name that marks an instance of keys and values; no engine may use it for another form."""
VALUE_DTYPE = "bytes"
VALUE_SPEC = "value"
"""The one part of a value."""


@dataclass(frozen=True, slots=True)
class InstanceEntry:
    """One registered instance. `number` is random, 48 bits, never reused; it names its keys."""

    instance_id: str
    number: int
    group: str
    group_number: int
    block_size: int
    location_spec_infos: tuple[LocationSpecInfo, ...]
    location_spec_groups: tuple[LocationSpecGroup, ...]
    model_deployment: ModelDeployment
    shards: int = 1
    """Hash tags that its blocks are spread over; fixed for its life."""
    default_query_type: int = 0

    @property
    def has_values(self) -> bool:
        """Whether it is one of keys and values (core.values), not of blocks."""
        return self.model_deployment.model_name == VALUE_MODEL

    def spec_sets(self) -> dict[int, tuple[LocationSpecInfo, ...]]:
        """The sets of specs that a block may have: 0 = all, n = the n-th location spec group."""
        sets = {0: self.location_spec_infos}
        for number, group in enumerate(self.location_spec_groups, 1):
            sets[number] = tuple(spec for spec in self.location_spec_infos if spec.name in group.spec_names)
        return sets

    def identity(self) -> tuple[object, ...]:
        """What a repeated registration must have in common: everything but group and user data.

        Spec groups are compared in canonical (sorted) form, WIRE.md A.
        """
        deployment = {**asdict(self.model_deployment), "user_data": ""}
        groups = sorted((g.name, tuple(sorted(g.spec_names))) for g in self.location_spec_groups)
        specs = tuple((s.name, s.size) for s in self.location_spec_infos)
        return (self.block_size, specs, tuple(groups), tuple(deployment.items()))


Entry = StorageEntry | GroupEntry | InstanceEntry


@dataclass(frozen=True)
class Registry:
    """One consistent view. `version` is that of the newest entry applied."""

    version: int = 0
    storages: Mapping[str, StorageEntry] = field(default_factory=dict)
    groups: Mapping[str, GroupEntry] = field(default_factory=dict)
    instances: Mapping[str, InstanceEntry] = field(default_factory=dict)

    def instances_of(self, group: str) -> tuple[InstanceEntry, ...]:
        return self._by_group.get(group, ())

    @cached_property
    def _by_group(self) -> dict[str, tuple[InstanceEntry, ...]]:
        found: dict[str, list[InstanceEntry]] = {}
        for entry in self.instances.values():
            found.setdefault(entry.group, []).append(entry)
        return {group: tuple(entries) for group, entries in found.items()}

    def storages_of(self, group: GroupEntry) -> list[StorageEntry]:
        """The group's candidates that exist, in the group's order."""
        return [self.storages[n] for n in group.storage_candidates if n in self.storages]

    def storage_by_number(self) -> dict[int, StorageEntry]:
        """The storage behind each number of block records, segments and lost ones included."""
        return {number: storage for storage in self.storages.values() for number in storage.numbers}


def to_dict(entry: Entry) -> dict[str, Any]:
    """A JSON-ready form of an entry."""
    return asdict(entry)


def storage_from_dict(data: Mapping[str, Any]) -> StorageEntry:
    return StorageEntry(
        **{
            **data,
            "type": StorageType(data["type"]),
            # Entries published before there were memory pools have none.
            "segments": tuple(PoolSegment(**segment) for segment in data.get("segments", ())),
            "lost_numbers": tuple(data.get("lost_numbers", ())),
        }
    )


def group_from_dict(data: Mapping[str, Any]) -> GroupEntry:
    quota = data["quota"]
    meta_indexer = data["meta_indexer"]
    return GroupEntry(
        **{
            **data,
            "storage_candidates": tuple(data["storage_candidates"]),
            "prefer_strategy": PreferStrategy(data["prefer_strategy"]),
            "quota": Quota(
                capacity_bytes=quota["capacity_bytes"],
                per_type={StorageType(k): v for k, v in quota["per_type"].items()},
            ),
            "reclaim": reclaim_from_dict(data["reclaim"]),
            "meta_indexer": MetaIndexerSettings(
                **{**meta_indexer, "cache_policy": CachePolicy(**meta_indexer["cache_policy"])}
            ),
            # Entries published before there were limits or migrations have none.
            "limits": FairnessLimits(**data.get("limits", {})),
            "migration": migration_from_dict(data.get("migration")),
            "placement": Placement(data.get("placement", Placement.ORDERED)),
        }
    )


def reclaim_from_dict(data: Mapping[str, Any]) -> ReclaimSettings:
    """Settings kept before there were budgets have none."""
    budget = ReclaimBudget(data.get("budget", ReclaimBudget.GROUP_LRU))
    return ReclaimSettings(**{**data, "policy": ReclaimPolicy(data["policy"]), "budget": budget})


def migration_from_dict(data: Mapping[str, Any] | None) -> MigrationPolicy | None:
    return None if data is None else MigrationPolicy(**{**data, "retention": Retention(data["retention"])})


def instance_from_dict(data: Mapping[str, Any]) -> InstanceEntry:
    return InstanceEntry(
        **{
            **data,
            "location_spec_infos": tuple(LocationSpecInfo(**s) for s in data["location_spec_infos"]),
            "location_spec_groups": tuple(
                LocationSpecGroup(name=g["name"], spec_names=tuple(g["spec_names"]))
                for g in data["location_spec_groups"]
            ),
            "model_deployment": ModelDeployment(**data["model_deployment"]),
        }
    )
