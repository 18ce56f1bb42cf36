"""Two tiers from one LRU curve: what each would serve, and what would move between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kvcm_platform.core.errors import Code, DomainError, invalid

from ..curve import Curve, Touch, Unit


@dataclass(frozen=True, slots=True)
class TierHits:
    """What one tier serves that the tier above it does not have."""

    blocks: int
    tokens: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TierSplit:
    """Capacities in the curve's unit.

    Exclusive: what leaves tier 1 goes to tier 2 (`demoted_blocks`), what tier 2 serves comes back up
    (`tier2.blocks` of them). Inclusive: every use refreshes both tiers, and each holds what it can;
    then tier 2 serves `inclusive_tier2`. Not told: a tier 2 that sees tier 1's misses only.
    `is_exact` is false for bytes: the tiers' edges fall within blocks, so a block more or less fits.
    """

    capacity1: int
    capacity2: int
    tier1: TierHits
    tier2: TierHits
    demoted_blocks: int
    inclusive_tier2: TierHits
    is_exact: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def tier_capacities(pairs: Iterable[tuple[int, int]]) -> list[int]:
    """Where the curve that `tiers` reads must be exact: at c1, c2 and c1 + c2 of each pair."""
    return sorted({capacity for c1, c2 in pairs for capacity in (c1, c2, c1 + c2)})


def tiers(curve: Curve, pairs: Iterable[tuple[int, int]]) -> list[TierSplit]:
    """The split of each pair of capacities (OPTIMIZER.md 1), from a curve made at `tier_capacities(pairs)`.

    Raises UNSUPPORTED for any curve but LRU deepest first, INVALID_ARGUMENT for a pair whose capacities
    the curve does not have.
    """
    definition = curve.definition
    if (definition.policy, definition.touch) != ("lru", Touch.DEEP) or "evicted_blocks" not in curve.series:
        raise DomainError(
            Code.UNSUPPORTED, "curve: tiers follow from an LRU curve, deepest first, alone", field="curve"
        )
    return [_split(curve, c1, c2) for c1, c2 in pairs]


def _split(curve: Curve, c1: int, c2: int) -> TierSplit:
    if c1 < 0 or c2 < 0:
        raise invalid("pairs", f"({c1}, {c2}) has a negative capacity")
    first, both, larger = (_place(curve, capacity) for capacity in (c1, c1 + c2, max(c1, c2)))
    return TierSplit(
        capacity1=c1,
        capacity2=c2,
        tier1=_between(curve, None, first),
        tier2=_between(curve, first, both),
        demoted_blocks=int(curve.series["evicted_blocks"][first]),
        inclusive_tier2=_between(curve, first, larger),
        is_exact=_is_exact(curve),
    )


def _is_exact(curve: Curve) -> bool:
    return curve.definition.is_exact and curve.definition.unit == Unit.BLOCKS


def _place(curve: Curve, capacity: int) -> int:
    at = int(np.searchsorted(curve.capacities, capacity))
    if at < len(curve.capacities) and curve.capacities[at] == capacity:
        return at
    raise invalid("pairs", f"the curve has no capacity {capacity}; make it at tier_capacities(pairs)")


def _between(curve: Curve, low: int | None, high: int) -> TierHits:
    blocks, tokens, size = (
        int(column[high]) - (0 if low is None else int(column[low]))
        for column in (curve.hit_blocks, curve.hit_tokens, curve.hit_bytes)
    )
    return TierHits(blocks, tokens, size)
