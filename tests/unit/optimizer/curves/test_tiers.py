"""Two tiers read off one curve equal a simulation of both."""

from __future__ import annotations

import random

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.optimizer.curve import Touch, Unit
from kvcm_platform.optimizer.curves import lru_curve, tier_capacities, tiers, ttl_curve
from tests.support.naive_curves import naive_inclusive_tiers, naive_tiers
from tests.support.optimizer_traces import Turn, random_trace, trace_of


def test_equal_the_naive_models_at_every_pair() -> None:
    for case in range(150):
        chance = random.Random(case)
        trace, turns = random_trace(
            chance,
            requests=chance.randint(1, 12),
            most_blocks=5,
            keys=chance.randint(1, 2),
            instances=chance.randint(1, 2),
            is_plain=case % 3 == 0,
        )
        most = min(trace.distinct_blocks + 1, 9)
        pairs = [(c1, c2) for c1 in range(most) for c2 in range(most)]
        curve = lru_curve(trace, tier_capacities(pairs))
        for (c1, c2), split in zip(pairs, tiers(curve, pairs), strict=True):
            assert (split.capacity1, split.capacity2) == (c1, c2)
            found = (split.tier1.blocks, split.tier2.blocks, split.demoted_blocks)
            assert found == naive_tiers(turns, c1, c2), (case, c1, c2)
            assert naive_inclusive_tiers(turns, c1, c2) == (split.tier1.blocks, split.inclusive_tier2.blocks)


def test_what_does_not_follow_is_refused() -> None:
    trace = trace_of([Turn([1, 2]), Turn([1])])
    for curve in (lru_curve(trace, [1, 2, 3], touch=Touch.ROOT), ttl_curve(trace)):
        with pytest.raises(DomainError) as refused:
            tiers(curve, [(1, 1)])
        assert (refused.value.code, refused.value.field) == (Code.UNSUPPORTED, "curve")
    for pair in ((1, 7), (-1, 2)):
        with pytest.raises(DomainError) as refused:
            tiers(lru_curve(trace, [1, 2, 3]), [pair])
        assert refused.value.field == "pairs"
    assert tiers(lru_curve(trace, [4096, 8192], unit=Unit.BYTES), [(4096, 4096)])[0].is_exact is False
