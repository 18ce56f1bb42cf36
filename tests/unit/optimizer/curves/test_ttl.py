"""The TTL curve equals a simulation by the microsecond, its residency too."""

from __future__ import annotations

import random

import pytest

from kvcm_platform.core.errors import DomainError
from kvcm_platform.optimizer.curves import ttl_curve
from kvcm_platform.optimizer.trace import Event
from tests.support.naive_curves import hits_at, naive_ttl
from tests.support.optimizer_traces import Turn, mooncake_trace, needs_shared, random_trace, trace_of


def test_equals_the_naive_model_at_every_time() -> None:
    for case in range(400):
        chance = random.Random(case)
        trace, turns = random_trace(
            chance,
            requests=chance.randint(1, 12),
            most_blocks=4,
            keys=chance.randint(1, 3),
            instances=chance.randint(1, 3),
            is_plain=case % 3 == 0,
        )
        ttls = sorted({0, 1, 2, 3, 5, 8, 30, 33, 100, 10**6, *chance.sample(range(120), 6)})
        curve = ttl_curve(trace, ttls)
        span = max(1, turns[-1].at_us - turns[0].at_us)
        for place, ttl in enumerate(ttls):
            hits, alive, alive_bytes = naive_ttl(trace, turns, ttl)
            assert hits_at(curve, place) == hits, (case, ttl)
            assert curve.series["mean_resident"][place] * span == pytest.approx(alive)
            assert curve.series["mean_resident_bytes"][place] * span == pytest.approx(alive_bytes)


def test_without_times_it_reaches_over_the_span() -> None:
    curve = ttl_curve(trace_of([Turn([1, 2], 0), Turn([1, 2], 5_000_000)]))
    assert curve.definition.policy == "ttl"
    assert curve.capacities[-1] == 5_000_000
    assert (curve.hit_blocks[-2], curve.hit_blocks[-1]) == (0, 2)
    assert curve.series["mean_resident"][-1] == 2


@needs_shared
def test_the_longest_time_is_unlimited() -> None:
    curve = ttl_curve(mooncake_trace("conversation"), [0, 10**12])
    assert round(float(curve.hit_rate[-1]), 4) == 0.3664
    assert 0 < curve.hit_rate[0] < 0.3


def test_what_cannot_be_answered_is_refused() -> None:
    with pytest.raises(DomainError) as refused:
        ttl_curve(trace_of([Turn([1])]), [-1])
    assert refused.value.field == "ttls_us"
    with pytest.raises(DomainError) as refused:
        ttl_curve(trace_of([Turn([1], event=Event.READ)]))
    assert refused.value.field == "events"
    assert ttl_curve(trace_of([])).blocks == 0
