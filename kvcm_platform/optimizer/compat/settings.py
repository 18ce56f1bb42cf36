"""What a replay as the reference simulator does it is told: eviction mode, batch, groups, instances."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from kvcm_platform.core.errors import invalid

LARGEST_BATCH = 2**31 - 1
"""The reference keeps it in 32 bits."""


class EvictionMode(IntEnum):
    """By the numbers of the configuration file."""

    GROUP_ROUGH = 1
    INSTANCE_ROUGH = 2
    INSTANCE_PRECISE = 3


class ReferencePolicy(StrEnum):
    LRU = "lru"
    RANDOM_LRU = "random_lru"
    LEAF_AWARE_LRU = "leaf_aware_lru"


@dataclass(frozen=True, slots=True)
class ReferenceInstance:
    """`sample_rate` counts for random_lru; 0 or below stands for 0.1, as in the reference."""

    instance_id: str
    policy: ReferencePolicy
    sample_rate: float = 0.1


@dataclass(frozen=True, slots=True)
class ReferenceGroup:
    """`capacity` in blocks, of which `used_percentage` (0..1) is the quota."""

    name: str
    capacity: int
    instances: tuple[ReferenceInstance, ...]
    used_percentage: float = 1.0

    @property
    def quota(self) -> int:
        """Rounded towards zero, as the reference's cast to an integer does."""
        return int(self.capacity * self.used_percentage)


@dataclass(frozen=True, slots=True)
class ReferenceSettings:
    """Raises INVALID_ARGUMENT for what the reference refuses or cannot end with."""

    groups: tuple[ReferenceGroup, ...]
    mode: EvictionMode = EvictionMode.GROUP_ROUGH
    batch: int = 100

    def __post_init__(self) -> None:
        if not 1 <= self.batch <= LARGEST_BATCH:
            raise invalid(
                "eviction_batch_size_per_instance", f"{self.batch} is not between 1 and {LARGEST_BATCH}"
            )
        names: set[str] = set()
        for group in self.groups:
            if group.capacity < 0 or not math.isfinite(group.used_percentage) or group.used_percentage < 0:
                raise invalid("quota_capacity", f"group {group.name!r} has a quota below 0")
            for instance in group.instances:
                if instance.instance_id in names:
                    raise invalid("instances", f"{instance.instance_id!r} is there twice")
                if not math.isfinite(instance.sample_rate):
                    raise invalid("sample_rate", f"that of {instance.instance_id!r} is no number")
                names.add(instance.instance_id)

    @property
    def instances(self) -> tuple[ReferenceInstance, ...]:
        """Of all groups, in the order of the configuration."""
        return tuple(instance for group in self.groups for instance in group.instances)
