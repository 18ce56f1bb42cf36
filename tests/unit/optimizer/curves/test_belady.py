"""The clairvoyant bound equals the best of all choices, and the published figures."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.optimizer.curve import Unit
from kvcm_platform.optimizer.curves import belady_curve, lru_curve
from tests.support.naive_curves import most_hits
from tests.support.optimizer_traces import (
    ONE,
    Turn,
    mooncake_trace,
    needs_shared,
    random_trace,
    trace_of,
)


def test_equals_the_best_of_all_choices() -> None:
    for case in range(500):
        chance = random.Random(case)
        trace, turns = random_trace(
            chance,
            requests=chance.randint(1, 7),
            most_blocks=3,
            keys=2,
            instances=chance.randint(1, 2),
            is_plain=case % 3 == 0,
        )
        capacities = list(range(min(trace.distinct_blocks, 4) + 1))
        curve = belady_curve(trace, capacities)
        assert curve.hit_blocks.tolist() == [most_hits(turns, capacity) for capacity in capacities], case


def test_it_bounds_lru_and_meets_it_without_a_limit() -> None:
    for case in range(200):
        chance = random.Random(case)
        trace, turns = random_trace(chance, requests=30, keys=3, instances=3)
        capacities = np.arange(1, trace.distinct_blocks + 1)
        bound, lru = belady_curve(trace, capacities), lru_curve(trace, capacities)
        assert (bound.hit_blocks >= lru.hit_blocks).all()
        assert (np.diff(bound.hit_blocks) >= 0).all()
        for name in ("hit_blocks", "hit_tokens", "hit_bytes", "hit_token_positions", "full_hit_requests"):
            assert getattr(bound, name)[-1] == getattr(lru, name)[-1], name
        for name in ("requests", "blocks", "tokens", "bytes", "distinct_blocks", "distinct_bytes"):
            assert getattr(bound, name) == getattr(lru, name), name
        assert bound.unlimited_hit_blocks == lru.unlimited_hit_blocks
        assert bound.unlimited_hit_tokens == lru.unlimited_hit_tokens


def test_more_requests_than_a_word_of_words_has_bits() -> None:
    """Each block comes back after all others: a cache of C keeps C of them, whatever the distance."""
    period, rounds = 5000, 3
    trace = trace_of([Turn([number % period]) for number in range(period * rounds)])
    curve = belady_curve(trace, [1, 100, 4999])
    assert curve.hit_blocks.tolist() == [most_hits_of_a_loop(period, rounds, c) for c in (1, 100, 4999)]


def most_hits_of_a_loop(period: int, rounds: int, capacity: int) -> int:
    """By the rule on single blocks: of those there and the one just used, what is used next soonest stays."""
    following: dict[int, int] = {}
    hits = 0
    for now in range(period * rounds):
        block = now % period
        hits += following.pop(block, None) is not None
        if now + period < period * rounds:
            following[block] = now + period
        if len(following) > capacity:
            del following[max(following, key=following.__getitem__)]
    return hits


@needs_shared
@pytest.mark.parametrize(("name", "rates"), [("conversation", (0.191, 0.3664)), ("synthetic", (0, 0.618))])
def test_mooncake_figures(name: str, rates: tuple[float, float]) -> None:
    """At 1,000 (where known) and 10,000 blocks (OPTIMIZER.md 4)."""
    curve = belady_curve(mooncake_trace(name), [1000, 10_000])
    assert not rates[0] or round(float(curve.hit_rate[0]), 3) == rates[0]
    assert round(float(curve.hit_rate[1]), 4) == rates[1]


def test_bytes_are_blocks_of_one_size() -> None:
    turns = [Turn([1, 2, number % 3]) for number in range(9)]
    trace = trace_of(turns, ONE)
    size = ONE[0].block_bytes
    in_bytes = belady_curve(trace, [0, size - 1, 2 * size, 2 * size + 1, 4 * size], unit=Unit.BYTES)
    assert in_bytes.hit_blocks.tolist() == belady_curve(trace, [0, 2, 4]).hit_blocks[[0, 0, 1, 1, 2]].tolist()
    mixed, _ = random_trace(random.Random(1), instances=2)
    with pytest.raises(DomainError) as refused:
        belady_curve(mixed, unit=Unit.BYTES)
    assert (refused.value.code, refused.value.field) == (Code.UNSUPPORTED, "unit")
    assert belady_curve(trace_of([])).unlimited_hit_blocks == 0
