"""Policies that an analysis may ask for.

The computations' own tables load compiled code; this one does not, so that web processes can check names. A
test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kvcm_platform.core.errors import invalid


@dataclass(frozen=True, slots=True)
class KnownPolicy:
    """`is_one_pass`: all capacities come from one pass over the trace. `is_compatible`: the reference
    simulator's own, bit for bit. `parameters` are what may be set of it, with the defaults."""

    name: str
    description: str
    is_one_pass: bool = False
    is_compatible: bool = False
    has_holes: bool = False
    parameters: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


_ALL = (
    KnownPolicy("lru", "Evicts the least recently used block", is_one_pass=True),
    KnownPolicy("ttl", "Keeps a block for a time after its last use", is_one_pass=True),
    KnownPolicy("belady", "The clairvoyant bound: what no policy can exceed"),
    KnownPolicy("fifo", "Evicts the block brought first, used or not", has_holes=True),
    KnownPolicy("lfu", "Evicts the block used the fewest times since it came, then the least recent"),
    KnownPolicy("clock", "First in, first out, with a second round for used blocks", has_holes=True),
    KnownPolicy(
        "sieve", "A hand evicts the next block that was not used since it last passed", has_holes=True
    ),
    KnownPolicy(
        "s3_fifo",
        "A small queue for new blocks, a main queue for used ones, a ghost queue",
        has_holes=True,
        parameters=MappingProxyType({"small_ratio": 0.1, "ghost_ratio": 0.9, "threshold": 2}),
    ),
    KnownPolicy(
        "sampled_lru",
        "Evicts the least recent of a few blocks drawn at random",
        has_holes=True,
        parameters=MappingProxyType({"samples": 16}),
    ),
    KnownPolicy("leaf_lru", "Evicts the least recent block that no resident block hangs on"),
    *(
        KnownPolicy(
            f"compat:{name}",
            f"The reference simulator's {name}, bit for bit",
            is_compatible=True,
            has_holes=True,
            parameters=MappingProxyType(
                {"eviction_mode": 1, "batch_size": 100, "sample_rate": 0.1, "used_percentage": 1.0}
            ),
        )
        for name in ("lru", "random_lru", "leaf_aware_lru")
    ),
)

KNOWN_POLICIES: Mapping[str, KnownPolicy] = MappingProxyType({policy.name: policy for policy in _ALL})


def policy_check(name: str, field: str = "policies") -> None:
    """Raises INVALID_ARGUMENT for a policy that there is not."""
    if name not in KNOWN_POLICIES:
        raise invalid(field, f"there is no policy {name!r}; there are {', '.join(KNOWN_POLICIES)}")


def parameters_check(name: str, given: Mapping[str, object], field: str = "parameters") -> None:
    """Raises INVALID_ARGUMENT for a parameter that the policy has not, or that is no number."""
    known = KNOWN_POLICIES[name].parameters
    for parameter, value in given.items():
        if parameter not in known:
            has = ", ".join(known) or "none"
            raise invalid(field, f"{name} has no parameter {parameter!r}; it has {has}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise invalid(field, f"{parameter} of {name} must be a number")
