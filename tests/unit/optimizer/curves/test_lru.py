"""The one-pass LRU curve equals plain simulations at every capacity, and the published figures."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.optimizer.curve import Touch, Unit
from kvcm_platform.optimizer.curves import lru_curve
from kvcm_platform.optimizer.trace import Event, TraceInstance
from tests.support.naive_curves import hits_at, naive_lru
from tests.support.optimizer_traces import Turn, mooncake_trace, needs_shared, random_trace, trace_of


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("touch", Touch)
@pytest.mark.parametrize("unit", Unit)
def test_equals_the_naive_model_at_every_capacity(seed: int, touch: Touch, unit: Unit) -> None:
    for case in range(150):
        chance = random.Random(seed * 1000 + case)
        trace, turns = random_trace(
            chance,
            requests=chance.randint(1, 14),
            most_blocks=chance.randint(1, 6),
            keys=chance.randint(1, 3),
            instances=chance.randint(1, 3),
            is_plain=case % 3 == 0,
        )
        scale = 1000 if unit is Unit.BYTES else 1
        most = trace.distinct_blocks * (7 if unit is Unit.BYTES else 1)
        capacities = [scale * blocks for blocks in range(most + 2)]
        if len(capacities) > 24:
            capacities = sorted(chance.sample(capacities, 24))
        curve = lru_curve(trace, capacities, touch=touch, unit=unit)
        assert curve.capacities.tolist() == capacities
        for place, capacity in enumerate(capacities):
            hits, evicted = naive_lru(
                trace, turns, capacity, is_root=touch is Touch.ROOT, in_bytes=unit is Unit.BYTES
            )
            assert hits_at(curve, place) == hits, (case, capacity)
            assert curve.series["evicted_blocks"][place] == evicted, (case, capacity)
        unlimited, _ = naive_lru(trace, turns, 10**9)
        assert curve.unlimited_hit_blocks == unlimited.blocks
        assert curve.unlimited_hit_tokens == unlimited.tokens
        assert curve.blocks == sum(turn.lookup - turn.skip_n for turn in turns)


SHARES = (0.01, 0.05, 0.10, 0.25, 0.50)


@needs_shared
@pytest.mark.parametrize(
    ("name", "rates", "unlimited"),
    [
        ("conversation", [0.0523, 0.1954, 0.2784, 0.3535, 0.3631], 0.3664),
        ("synthetic", [0.0343, 0.1548, 0.2598, 0.4434, 0.5888], 0.6396),
    ],
)
def test_mooncake_figures(name: str, rates: list[float], unlimited: float) -> None:
    """Root first at shares of the distinct blocks, as published (OPTIMIZER.md 4)."""
    trace = mooncake_trace(name)
    capacities = [int(share * trace.distinct_blocks) for share in SHARES]
    curve = lru_curve(trace, capacities, touch=Touch.ROOT)
    assert curve.hit_rate.round(4).tolist() == rates
    assert round(curve.unlimited_hit_blocks / curve.blocks, 4) == unlimited
    deep = lru_curve(trace, capacities)
    assert (deep.hit_blocks >= curve.hit_blocks).all()
    whole = lru_curve(trace)
    assert whole.capacities[-1] == trace.distinct_blocks
    assert whole.hit_blocks[-1] == curve.unlimited_hit_blocks


def test_bin_edges_are_exact() -> None:
    """Without capacities there are log-linear ones, and each equals what is found at every capacity."""
    chance = random.Random(7)
    turns = [Turn([chance.randrange(3), *range(chance.randint(1, 60))], number) for number in range(400)]
    turns += [Turn([number, *range(40)], 1000 + number) for number in range(100)]
    turns += [Turn([number, *range(40)], 2000 + number) for number in range(0, 100, 3)]
    trace = trace_of(turns)
    whole = lru_curve(trace)
    assert len(whole.capacities) < trace.distinct_blocks
    exact = lru_curve(trace, np.arange(1, trace.distinct_blocks + 1))
    assert (whole.hit_blocks == exact.hit_blocks[whole.capacities - 1]).all()
    assert (whole.hit_token_positions == exact.hit_token_positions[whole.capacities - 1]).all()


def test_progress_comes_and_may_end_the_work() -> None:
    trace = trace_of([Turn([number]) for number in range(10)])
    told: list[float] = []
    lru_curve(trace, [1], on_progress=told.append)
    assert told[-1] == 1.0

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lru_curve(trace, [1], on_progress=stop)


def test_an_empty_trace_has_a_curve() -> None:
    curve = lru_curve(trace_of([]))
    assert curve.blocks == curve.unlimited_hit_blocks == curve.hit_blocks[0] == 0
    assert curve.hit_rate.tolist() == [0.0]


def test_what_cannot_be_answered_is_refused() -> None:
    apart = trace_of([Turn([1]), Turn([1], event=Event.WRITE)])
    with pytest.raises(DomainError) as refused:
        lru_curve(apart)
    assert (refused.value.code, refused.value.field) == (Code.UNSUPPORTED, "events")
    trace = trace_of([Turn([1])])
    for capacities in ([-1], []):
        with pytest.raises(DomainError) as refused:
            lru_curve(trace, capacities)
        assert refused.value.field == "capacities"
    sizeless = trace_of([Turn([1])], [TraceInstance("i0", 16)])
    with pytest.raises(DomainError) as refused:
        lru_curve(sizeless, unit=Unit.BYTES)
    assert (refused.value.code, refused.value.field) == (Code.INVALID_ARGUMENT, "unit")
