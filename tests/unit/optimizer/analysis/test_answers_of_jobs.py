"""Jobs of an analysis over small traces: what they find equals what plain models of the policies find."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kvcm_platform.optimizer.analysis.formats import FORMATS
from kvcm_platform.optimizer.analysis.order import packed, unpacked
from kvcm_platform.optimizer.analysis.plan import facts_from_json, plan_jobs, plan_to_json
from kvcm_platform.optimizer.analysis.reading import trace_facts
from kvcm_platform.optimizer.analysis.results import curves_merge, found_of
from kvcm_platform.optimizer.analysis.spec import spec_from_json, spec_to_json
from kvcm_platform.optimizer.analysis.work import analyse
from kvcm_platform.optimizer.curves import lru_curve
from kvcm_platform.optimizer.policies import simulate
from kvcm_platform.optimizer.roi import cost_from_json, roi
from kvcm_platform.optimizer.trace import TraceInstance
from kvcm_platform.optimizer.traces import SourceFormat
from tests.support.optimizer_traces import Turn, trace_of


def test_the_formats_that_are_offered_are_those_that_are_read() -> None:
    assert set(FORMATS) == {str(one) for one in SourceFormat}


class _DeepLru:
    """OPTIMIZER.md 1: a request looks its chain up, then touches it deepest first; the rest is evicted."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.recent = capacity, []

    def request(self, paths: list[int]) -> int:
        hits = 0
        while hits < len(paths) and paths[hits] in self.recent:
            hits += 1
        for path in reversed(paths):
            if path in self.recent:
                self.recent.remove(path)
            self.recent.insert(0, path)
        del self.recent[self.capacity :]
        return hits


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A random trace, opened wherever a job asks for one."""
    chance = random.Random(7)
    turns = [
        Turn([chance.randrange(4) for _ in range(chance.randint(1, 5))], at_us=number * 1000)
        for number in range(60)
    ]
    trace = trace_of(turns)
    monkeypatch.setattr("kvcm_platform.optimizer.analysis.work.open_trace", lambda _: trace)
    return SimpleNamespace(trace=trace, turns=turns)


def run(traced: SimpleNamespace, **members):
    spec = spec_from_json({"windows": 4, **members})
    told: list[float] = []
    results = []
    for job in plan_jobs(spec, facts_from_json(trace_facts(traced.trace))):
        arguments = {"trace": str(Path("t")), "spec": spec_to_json(spec), "plan": plan_to_json(job)}
        results.append(unpacked(packed(analyse(arguments, told.append))))
        assert told[-1] == pytest.approx(1.0)
    return found_of(results)


def test_every_capacity_of_the_curve_is_what_a_cache_of_that_size_hits(traced: SimpleNamespace) -> None:
    found = run(traced, policies=["lru"], capacities=[3, "50%"])
    curve = found.curves["lru"]
    assert list(curve.capacities) == list(range(1, traced.trace.distinct_blocks + 1))
    for capacity, hits in zip(curve.capacities, curve.hit_blocks, strict=True):
        cache = _DeepLru(int(capacity))
        assert sum(cache.request(turn.paths) for turn in traced.turns) == hits
    assert found.details is not None and found.prefixes is not None
    assert sum(window["curve"]["requests"] for window in found.details["windows"]) == 60
    bound = found.curves["belady"]
    at = np.searchsorted(curve.capacities, bound.capacities)
    assert (bound.hit_blocks >= curve.hit_blocks[at]).all()


def test_pieces_of_a_policy_are_one_curve_again(traced: SimpleNamespace) -> None:
    whole = simulate(traced.trace, "fifo", [2, 3, 5, 8])
    parts = [simulate(traced.trace, "fifo", few) for few in ([5, 8], [2], [3, 5])]
    merged = curves_merge(parts)
    assert merged.capacities.tolist() == whole.capacities.tolist()
    assert merged.hit_blocks.tolist() == whole.hit_blocks.tolist()
    assert merged.series["evicted_blocks"].tolist() == whole.series["evicted_blocks"].tolist()


def test_a_sample_of_all_is_the_exact_curve(traced: SimpleNamespace) -> None:
    exact = run(traced, policies=["lru"], capacities=[3, 9], has_bound=False)
    sampled = run(traced, policies=["lru"], capacities=[3, 9], has_bound=False, is_sampled=True)
    # All blocks are among the hot ones that are kept.
    at = np.searchsorted(exact.curves["lru"].capacities, [3, 9])
    assert sampled.curves["lru"].hit_blocks.tolist() == exact.curves["lru"].hit_blocks[at].tolist()
    assert sampled.details is not None and sampled.details["sampled"]["spread"] == 0


def test_late_writes_hit_less(traced: SimpleNamespace) -> None:
    at_once = run(traced, policies=["lru"], capacities=[9], has_bound=False).curves["lru"]
    late = run(
        traced, policies=["lru"], capacities=[9], has_bound=False, events="read_write", delay_seconds=0.02
    ).curves["lru"]
    assert late.definition.delay_us == 20_000 and late.definition.events == "read_write"
    assert late.hit_blocks[0] < at_once.hit_blocks[8]


def test_the_capacity_that_is_worth_most_is_among_the_points(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(3)
    turns = [
        Turn([chance.randrange(700), *range(chance.randint(0, 6))], at_us=number * 1_000_000)
        for number in range(3000)
    ]
    instances = (TraceInstance("i", block_tokens=16, block_bytes=1 << 20),)
    trace = trace_of(turns, instances)
    monkeypatch.setattr("kvcm_platform.optimizer.analysis.work.open_trace", lambda _: trace)
    every = lru_curve(trace, range(1, trace.distinct_blocks + 1))
    for price in (0.3, 0.5, 1.0):
        cost = {"model": "qwen3-8b", "tiers": [{"name": "t", "price_per_gib_month": price}]}
        worth = roi(every, cost_from_json(cost)).net_money_month
        found = run(
            SimpleNamespace(trace=trace), policies=["lru"], has_bound=False, hot_prefixes=0, cost=cost
        ).curves["lru"]
        of_points = roi(found, cost_from_json(cost)).net_money_month
        assert worth.max() > 0
        assert of_points.max() == pytest.approx(worth.max())
