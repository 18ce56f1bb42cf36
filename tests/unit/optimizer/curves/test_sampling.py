"""A sample of all blocks is the exact curve; a sample of few is near it, and says how far seeds lie apart."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kvcm_platform.core.errors import DomainError
from kvcm_platform.optimizer.curve import Unit
from kvcm_platform.optimizer.curves import lru_curve, sampled_curve
from kvcm_platform.optimizer.generate import generate
from tests.support.optimizer_traces import Turn, random_trace, trace_of

COUNTS = ("hit_blocks", "hit_tokens", "hit_bytes", "hit_token_positions", "full_hit_requests")


@pytest.mark.parametrize("unit", Unit)
def test_everything_sampled_is_the_exact_curve(unit: Unit) -> None:
    for case in range(150):
        chance = random.Random(case)
        trace, _ = random_trace(chance, requests=chance.randint(1, 20), keys=2, instances=3)
        exact = lru_curve(trace, unit=unit)
        for arguments in ({"one_in": 1, "hot_blocks": 3}, {"one_in": 1000, "hot_blocks": 10**6}):
            sample = sampled_curve(trace, unit=unit, seeds=(case,), **arguments)
            for name in COUNTS:
                assert (getattr(sample.curve, name) == getattr(exact, name)).all(), (case, name)
            assert sample.curve.unlimited_hit_tokens == exact.unlimited_hit_tokens
            assert sample.curve.distinct_bytes == exact.distinct_bytes
            assert sample.sampled_ratio == 1.0 and sample.spread == 0.0


def test_few_blocks_are_near_the_exact_curve() -> None:
    trace = generate(60_000, seed=4)
    capacities = np.geomspace(1000, trace.distinct_blocks, 24).astype(int)
    exact = lru_curve(trace, capacities)
    sample = sampled_curve(trace, capacities, one_in=20)
    errors = np.abs(sample.curve.hit_rate - exact.hit_rate)
    assert errors.mean() < 0.003 and errors.max() < 0.01
    assert np.abs(sample.curve.token_hit_rate - exact.token_hit_rate).max() < 0.02
    assert 0.05 < sample.sampled_ratio < 0.4
    assert 0 < sample.spread < 0.03
    assert (sample.low <= sample.curve.hit_rate + 1e-9).all()
    assert (sample.curve.hit_rate <= sample.high + 1e-9).all()
    assert not sample.curve.definition.is_exact and "one in 20" in sample.curve.definition.sampling


def test_what_is_no_sample_is_refused() -> None:
    trace = trace_of([Turn([1, 2])])
    cases = [({"one_in": 0}, "one_in"), ({"hot_blocks": -1}, "hot_blocks"), ({"seeds": ()}, "seeds")]
    for arguments, field in cases:
        with pytest.raises(DomainError) as refused:
            sampled_curve(trace, **arguments)
        assert refused.value.field == field
    assert sampled_curve(trace_of([])).curve.blocks == 0
