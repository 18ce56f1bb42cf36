"""Enumerations and small values that the whole platform shares. Names are WIRE.md's."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class StorageType(StrEnum):
    """Kinds of storage by the names that operators and REST use."""

    NFS = "nfs"
    HF3FS = "hf3fs"
    VCNS_HF3FS = "vcns_hf3fs"
    MOONCAKE = "mooncake"
    TAIR_MEMPOOL = "tair_mempool"
    DUMMY = "dummy"


WIRE_STORAGE_TYPE: dict[StorageType, int] = {
    StorageType.HF3FS: 1,
    StorageType.MOONCAKE: 2,
    StorageType.TAIR_MEMPOOL: 3,
    StorageType.NFS: 4,
    StorageType.VCNS_HF3FS: 5,
    StorageType.DUMMY: 6,
}
"""Numbers of `StorageType` in the protocol (WIRE.md 2.1)."""

STORAGE_TYPE_BY_WIRE = {number: kind for kind, number in WIRE_STORAGE_TYPE.items()}

URI_SCHEME: dict[StorageType, str] = {
    StorageType.NFS: "file",
    StorageType.HF3FS: "hf3fs",
    StorageType.VCNS_HF3FS: "vcns_hf3fs",
    StorageType.MOONCAKE: "mooncake",
    StorageType.TAIR_MEMPOOL: "pace",
    StorageType.DUMMY: "dummy",
}
"""Scheme of data URIs and name of the type in JSON (WIRE.md 2.1, 3.8)."""

LOCATION_WIRE_TYPE: dict[StorageType, int] = {**WIRE_STORAGE_TYPE, StorageType.VCNS_HF3FS: 1}
"""`CacheLocation.type`: a vcns_hf3fs location is reported as 3FS (WIRE.md 3.8)."""

READ_WEIGHT: dict[StorageType, int] = {
    StorageType.NFS: 5,
    StorageType.MOONCAKE: 3,
    StorageType.HF3FS: 3,
    StorageType.TAIR_MEMPOOL: 3,
    StorageType.VCNS_HF3FS: 1,
    StorageType.DUMMY: 1,
}
"""Static weights of the choice among several serving locations (WIRE.md 3.4)."""


class LocationStatus(IntEnum):
    """State of one cache location; the names on the wire carry the prefix CLS_."""

    NOT_FOUND = 0
    NEW = 1
    WRITING = 2
    SERVING = 3
    DELETING = 4


class QueryType(IntEnum):
    UNSPECIFIED = 0
    BATCH_GET = 1
    PREFIX_MATCH = 2
    REVERSE_ROLL_SW_MATCH = 3
    PREFIX_MATCH_WITH_MAMBA = 4


class TrimStrategy(IntEnum):
    UNSPECIFIED = 0
    REMOVE_ALL_CACHE = 1
    REMOVE_ALL_META = 2
    TIMESTAMP = 3


class PreferStrategy(StrEnum):
    """Which storage a write prefers (`CachePreferStrategy`): ALWAYS_x needs x, PREFER_x falls back.

    Those of nfs are ours: the protocol shows them as unspecified and leaves them alone.
    """

    UNSPECIFIED = "unspecified"
    ALWAYS_3FS = "always_3fs"
    PREFER_3FS = "prefer_3fs"
    ALWAYS_MOONCAKE = "always_mooncake"
    PREFER_MOONCAKE = "prefer_mooncake"
    ALWAYS_TAIR_MEMPOOL = "always_tair_mempool"
    PREFER_TAIR_MEMPOOL = "prefer_tair_mempool"
    ALWAYS_VCNS_3FS = "always_vcns_3fs"
    PREFER_VCNS_3FS = "prefer_vcns_3fs"
    ALWAYS_TAIR_MEMPOOL_SSD = "always_tair_mempool_ssd"
    PREFER_TAIR_MEMPOOL_SSD = "prefer_tair_mempool_ssd"
    ALWAYS_NFS = "always_nfs"
    PREFER_NFS = "prefer_nfs"


WIRE_PREFER_STRATEGY: dict[PreferStrategy, int] = {
    strategy: 0 if strategy.endswith("_nfs") else number for number, strategy in enumerate(PreferStrategy)
}


class Placement(StrEnum):
    """How a write chooses among the storages that its group's preference leaves.

    BALANCED: at random, as often as weight times free space says.
    """

    ORDERED = "ordered"
    BALANCED = "balanced"


MEDIA_SSD = 5
MEDIA_TYPES = {0: "not stated", 2: "DRAM", MEDIA_SSD: "SSD"}
"""`media_type` of memory pools (WIRE.md 1.3a)."""


class ReclaimPolicy(StrEnum):
    UNSPECIFIED = "unspecified"
    LRU = "lru"
    LFU = "lfu"
    TTL = "ttl"


WIRE_RECLAIM_POLICY: dict[ReclaimPolicy, int] = {
    policy: number for number, policy in enumerate(ReclaimPolicy)
}


class ReclaimBudget(StrEnum):
    """What each instance of a group gives to a reclaim run.

    GROUP_LRU: the blocks that come first in the order of the whole group, whoever has them.
    USAGE_PROPORTIONAL: the same share of what each could give. FIXED: equal amounts; what one lacks the
    others give.
    """

    GROUP_LRU = "group_lru"
    USAGE_PROPORTIONAL = "usage_proportional"
    FIXED = "fixed"


WIRE_RECLAIM_BUDGET: dict[ReclaimBudget, int] = {
    ReclaimBudget.USAGE_PROPORTIONAL: 0,
    ReclaimBudget.FIXED: 1,
    ReclaimBudget.GROUP_LRU: 2,
}
"""`InstanceReclaimBudgetPolicy` (WIRE.md 1.3b)."""


class Retention(StrEnum):
    """What becomes of a block's location when it was copied to another storage."""

    DELETE_SOURCE = "delete_source"
    KEEP_BOTH = "keep_both"
