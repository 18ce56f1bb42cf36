"""The policies by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kvcm_platform.optimizer.policies import dispatch


@dataclass(frozen=True, slots=True)
class Policy:
    """What a policy is, in one line, and what may be set of it.

    `closed_deep`, `closed_root`: whether its residents always are whole prefixes with touches in that order,
    so that none is behind a hole. `has_touch_order`: whether the order matters. `parameters`: the defaults.
    """

    name: str
    number: int
    description: str
    closed_deep: bool = False
    closed_root: bool = False
    has_touch_order: bool = True
    is_random: bool = False
    parameters: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


_ALL = (
    Policy("lru", dispatch.LRU, "Evicts the least recently used block", closed_deep=True),
    Policy("fifo", dispatch.FIFO, "Evicts the block brought first, used or not"),
    Policy(
        "lfu",
        dispatch.LFU,
        "Evicts the block used the fewest times since it came, then the least recent",
        closed_deep=True,
    ),
    Policy("clock", dispatch.CLOCK, "First in, first out, with a second round for used blocks"),
    Policy("sieve", dispatch.SIEVE, "A hand evicts the next block that was not used since it last passed"),
    Policy(
        "s3_fifo",
        dispatch.S3_FIFO,
        "A small queue for new blocks, a main queue for used ones, a ghost queue",
        parameters=MappingProxyType({"small_ratio": 0.1, "ghost_ratio": 0.9, "threshold": 2}),
    ),
    Policy(
        "sampled_lru",
        dispatch.SAMPLED_LRU,
        "Evicts the least recent of a few blocks drawn at random",
        is_random=True,
        parameters=MappingProxyType({"samples": 16}),
    ),
    Policy(
        "leaf_lru",
        dispatch.LEAF_LRU,
        "Evicts the least recent block that no resident block hangs on",
        closed_deep=True,
        closed_root=True,
        has_touch_order=False,
    ),
)

POLICIES: Mapping[str, Policy] = MappingProxyType({policy.name: policy for policy in _ALL})
