"""The online estimate against a plain model, the exact curve, and what becomes of it over changes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from kvcm_platform.core import sampling
from kvcm_platform.index.noted_calls import Noted, sampled
from kvcm_platform.index.request_entries import QUERY, START, SampledCalls
from kvcm_platform.optimizer import online
from kvcm_platform.optimizer.curves import lru_curve
from kvcm_platform.optimizer.generate import generate
from kvcm_platform.optimizer.online import FACTORS, WINDOW_SPANS, OnlineStack, together
from kvcm_platform.optimizer.online_form import OnlineRecord, online_from_bytes, online_to_bytes
from kvcm_platform.optimizer.online_stack import carry_on
from kvcm_platform.optimizer.trace import Trace
from tests.support.data_plane import instance
from tests.support.optimizer_traces import mooncake_trace, needs_shared

ONE, TWO = instance(), instance("model-b", 0xDEF)
BYTES = {ONE.number: 300, TWO.number: 700}
NOW = 100 * 60_000


def numbers_of(calls: SampledCalls) -> list[int]:
    return [one.number for one in calls.instances]


def feed(stack: OnlineStack, noted: Sequence[Noted], *, at_ms: int = NOW, k: int | None = None) -> None:
    calls = replace(sampled(noted, stack.k if k is None else k), at_ms=at_ms)
    stack.add([calls], [numbers_of(calls)], BYTES)


def query(keys: Sequence[int], mask: object = None, hits: int = 0, owner: object = ONE) -> Noted:
    return Noted(QUERY, owner, keys, mask, 0, hits, 2)  # type: ignore[arg-type]


class NaiveStack:
    """Blocks in a list, the most recent first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.blocks: list[tuple[int, int]] = []
        self.asked = dict.fromkeys(BYTES, 0)
        self.hits = {number: [0] * len(FACTORS) for number in BYTES}

    def use(self, call: Noted) -> None:
        owner = call.instance.number
        for depth, key in enumerate(call.keys):
            if call.kind == QUERY and depth >= (call.mask or 0):  # type: ignore[operator]
                self.asked[owner] += 1
                if (owner, key) in self.blocks:
                    at = self.blocks.index((owner, key))
                    distance = sum(BYTES[number] for number, _ in self.blocks[: at + 1])
                    for n, factor in enumerate(FACTORS):
                        self.hits[owner][n] += distance <= self.capacity * factor
        for key in reversed(call.keys):
            if (owner, key) in self.blocks:
                self.blocks.remove((owner, key))
            self.blocks.insert(0, (owner, key))


def random_calls(chance: random.Random) -> Iterator[Noted]:
    for _ in range(60):
        root = chance.choice((0, 0, 100, 200))
        # Chained keys: each says what came before it.
        keys = [root + depth + 1000 * chance.choice((0, 0, 0, 1)) for depth in range(chance.randint(1, 9))]
        for at in range(1, len(keys)):
            keys[at] += 7919 * (keys[at - 1] // 1000)
        owner = chance.choice((ONE, TWO))
        if chance.random() < 0.3:
            yield Noted(START, owner, keys, None, 0)
        else:
            yield query(keys, chance.choice((None, None, 1, 3, 20)), 0, owner)


@pytest.mark.parametrize("seed", range(25))
def test_with_all_blocks_it_equals_a_plain_stack(seed):
    chance = random.Random(seed)
    capacity = chance.choice((900, 2500, 6000))
    stack, naive = OnlineStack(), NaiveStack(capacity)
    stack.set_capacity(capacity, NOW)
    calls = list(random_calls(chance))
    while calls:
        some = [calls.pop(0) for _ in range(min(len(calls), chance.randint(1, 9)))]
        feed(stack, some)
        for call in some:
            naive.use(call)
        stack = online_from_bytes(online_to_bytes(OnlineRecord(stack))).stack
    found = stack.estimates(NOW)
    for number in BYTES:
        assert found[number].asked_blocks == naive.asked[number]
        assert found[number].hit_blocks == pytest.approx(naive.hits[number])
    everything = together(found)
    assert everything.asked_blocks == sum(naive.asked.values())
    held = [0] * len(FACTORS)
    above = 0
    for number, _ in naive.blocks:
        for at, factor in enumerate(FACTORS):
            held[at] += above < capacity * factor
        above += BYTES[number]
    assert stack.unique_blocks(BYTES) == tuple(held)


def noted_of(trace: Trace, begin: int, end: int) -> list[Noted]:
    """A trace's requests as calls; path ids stand for keys."""
    path, offset = np.asarray(trace.path, dtype=np.int64), trace.offset
    return [query(path[offset[at] : offset[at + 1]].tobytes()) for at in range(begin, end)]  # type: ignore[arg-type]


def estimated(trace: Trace, capacity: int, k: int) -> tuple[OnlineStack, np.ndarray]:
    stack = OnlineStack(k=k)
    stack.set_capacity(capacity * BYTES[ONE.number], NOW)
    for begin in range(0, trace.requests, 500):
        feed(stack, noted_of(trace, begin, min(begin + 500, trace.requests)))
    rates = stack.estimates(NOW)[ONE.number].hit_rates
    assert rates is not None
    return stack, np.array(rates)


@needs_shared
@pytest.mark.parametrize("name", ["conversation", "synthetic"])
def test_it_is_within_a_hundredth_of_the_exact_curve(name):
    trace = mooncake_trace(name)
    for capacity in (1000, 5000, 20_000):
        exact = lru_curve(trace, [int(capacity * factor) for factor in FACTORS]).hit_rate
        for k, most in ((0, 0.003), (3, 0.005), (6, 0.006), (8, 0.01)):
            stack, rates = estimated(trace, capacity, k)
            assert np.abs(rates - exact).max() <= most, (name, capacity, k)
            assert len(stack.ids) <= online.MOST_BLOCKS
            if k == stack.k == 0:
                assert rates == pytest.approx(exact, abs=1e-9)


def test_many_blocks_are_thinned_and_still_told_right(monkeypatch):
    monkeypatch.setattr(online, "MOST_BLOCKS", 12_000)
    trace = generate(30_000, seed=4)
    capacity = trace.distinct_blocks // 10
    exact = lru_curve(trace, [int(capacity * factor) for factor in FACTORS]).hit_rate
    stack, rates = estimated(trace, capacity, 0)
    assert stack.k > 3 and len(stack.ids) <= 12_000
    assert np.abs(rates - exact).max() <= 0.02


def test_what_was_there_before_it_began_counts_from_the_present_capacity_on():
    stack = OnlineStack()
    stack.set_capacity(3000, NOW)
    feed(stack, [query(range(6), hits=4)])
    assert stack.estimates(NOW)[ONE.number].hit_blocks == (0.0, 4.0, 4.0, 4.0)
    feed(stack, [query(range(10 * n, 10 * n + 6)) for n in range(1, 20)])
    assert stack.has_dropped
    feed(stack, [query(range(500, 506), hits=6)])
    assert stack.estimates(NOW)[ONE.number].hit_blocks == (0.0, 4.0, 4.0, 4.0)
    assert stack.estimates(NOW)[ONE.number].real_hit_blocks == 10


def test_another_capacity_begins_another_window():
    stack = OnlineStack()
    stack.set_capacity(3000, NOW)
    feed(stack, [query(range(6)), query(range(6))])
    stack.set_capacity(3000, NOW + 5)
    assert stack.estimates(NOW)[ONE.number].asked_blocks == 12
    stack.set_capacity(1200, NOW + 5)
    assert not stack.estimates(NOW) and stack.since_ms == 0
    feed(stack, [query(range(6))])
    assert stack.estimates(NOW)[ONE.number].hit_blocks == (2.0, 4.0, 6.0, 6.0)
    feed(stack, [query(range(10 * n, 10 * n + 6)) for n in range(1, 9)])
    stack.set_capacity(12_000, NOW + 7)
    # What was dropped would be missed at the larger capacity: it begins anew, and says since when.
    assert not len(stack.ids) and stack.since_ms == NOW + 7


def test_the_window_slides_by_minutes():
    stack = OnlineStack()
    stack.set_capacity(3000, NOW)
    for minute in range(2 * WINDOW_SPANS):
        feed(stack, [query(range(4))], at_ms=minute * 60_000 + 5)
    last = (2 * WINDOW_SPANS - 1) * 60_000
    assert stack.estimates(last)[ONE.number].asked_blocks == 4 * (WINDOW_SPANS + 1)
    assert stack.estimates(last, spans=2)[ONE.number].hit_blocks[1] == 12.0
    assert len(stack.window) == WINDOW_SPANS + 1
    assert not stack.estimates(last + (WINDOW_SPANS + 1) * 60_000)


def test_rates_of_processes_that_follow_late():
    """Entries of a coarser rate make the stack coarser; those of a finer one are thinned."""
    stack = OnlineStack()
    stack.set_capacity(1 << 30, NOW)
    feed(stack, [query(range(5000))], k=0)
    assert len(stack.ids) == 5000
    feed(stack, [query(range(5000))], k=9)
    coarse = len(stack.ids)
    assert stack.k == 9 and coarse < 1000
    feed(stack, [query(range(5000))], k=2)
    assert stack.k == 9 and len(stack.ids) == coarse
    assert stack.estimates(NOW)[ONE.number].hit_rates == pytest.approx([2 / 3] * 4, abs=0.1)


def test_instances_that_are_gone_take_no_room():
    stack = OnlineStack()
    stack.set_capacity(10_000, NOW)
    feed(stack, [query(range(5)), query(range(5), owner=TWO)])
    assert stack.unique_blocks(BYTES)[-1] == 10
    calls = replace(sampled([query(range(5)), query(range(5), owner=TWO)], 0), at_ms=NOW)
    stack.add([calls], [numbers_of(calls)], {ONE.number: 300})
    assert len(stack.ids) == 5 and stack.estimates(NOW)[TWO.number].asked_blocks == 5


def test_many_owners(monkeypatch):
    monkeypatch.setattr(online, "MOST_OWNERS", 3)
    stack = OnlineStack()
    stack.set_capacity(10_000, NOW)
    many = [instance(f"i{n}", n) for n in range(1, 6)]
    for owner in many:
        calls = replace(sampled([query(range(3), owner=owner)], 0), at_ms=NOW)
        stack.add([calls], [numbers_of(calls)], {one.number: 10 for one in many})
    assert stack.owners == [1, 2, 3] and set(stack.estimates(NOW)) == {1, 2, 3}


def test_lost_calls_are_counted():
    record = OnlineRecord()
    record.hear("a", 50, 10)
    record.hear("a", 60, 10)
    record.hear("a", 75, 10)
    record.hear("b", 3, 3)
    assert record.lost_calls == 5


@pytest.mark.parametrize("cut", [0, 3, 60, -1])
def test_a_state_that_is_not_whole_is_refused(cut):
    stack = OnlineStack()
    stack.set_capacity(10_000, NOW)
    feed(stack, [query(range(5))])
    data = online_to_bytes(OnlineRecord(stack, position="5-1"))
    assert online_from_bytes(data).position == "5-1"
    with pytest.raises(ValueError):
        online_from_bytes(data[:cut])


def test_the_state_of_other_rules_is_refused(monkeypatch):
    data = online_to_bytes(OnlineRecord())
    monkeypatch.setattr(sampling, "CLASS_BITS", (1, 1, 1, 1, 1, 0))
    with pytest.raises(ValueError, match="another version"):
        online_from_bytes(data)


def test_a_sampled_blocks_own_weight_counts_by_half():
    """Nothing is above it, and it stands for 16 blocks of 10 bytes: on average 8.5 of them are used (5)."""
    deepest = sampling.CLASSES - 1
    weights = np.ones(sampling.CLASSES)
    weights[deepest] = 16
    hits = np.zeros((1, sampling.CLASSES, 4))
    sampled_blocks = np.zeros((1, sampling.CLASSES))
    carry_on(
        *(np.zeros(0, np.uint64), np.zeros(0, np.uint8), np.zeros(0, np.uint16)),
        *(np.array([QUERY, QUERY], np.uint8), np.zeros(2, np.uint16), np.ones(2, np.uint32)),
        *(np.array([7, 7], np.uint64), np.full(2, sampling.IS_ASKED | deepest, np.uint8)),
        *(weights, np.array([10.0]), np.array([40.0, 84.0, 85.0, 160.0]), 4, sampled_blocks, hits),
    )
    assert sampled_blocks[0, deepest] == 32 and hits[0, deepest].tolist() == [0, 0, 16, 16]
