"""The choice against a naive model: all blocks in one list, sorted, and taken one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcm_platform.core.reclaim.order import TICK, Chain, Chains, Pick, RunView, heat_level
from kvcm_platform.core.reclaim.plan import Goal, Plan, make_plan, pick
from kvcm_platform.core.types import ReclaimBudget

LRU, PROPORTIONAL, FIXED = ReclaimBudget.GROUP_LRU, ReclaimBudget.USAGE_PROPORTIONAL, ReclaimBudget.FIXED


@dataclass(frozen=True)
class Request:
    """Blocks that one request used last: a chain of this many, from this depth on."""

    instance: int
    tick: int
    depth: int
    sizes: tuple[int, ...]
    staying: int = 0
    """So many of its deepest blocks are being written."""


def runs_of(request: Request, number: int) -> list[RunView]:
    """Sixteen blocks each, as a write session in one shard makes them."""
    found = []
    for ordinal, at in enumerate(range(0, len(request.sizes), 16)):
        part = request.sizes[at : at + 16]
        depth = request.depth + at
        last = request.depth + len(request.sizes) - request.staying - 1
        free = part[: max(0, last - depth + 1)]
        found.append(
            RunView(
                instance=request.instance,
                shard=0,
                name=b"%08d" % number + ordinal.to_bytes(2),
                score=request.tick * TICK + TICK - 1 - min(depth, TICK - 1),
                storage=1,
                sizes=tuple(reversed(free)) if len(free) == len(part) else (),
                top=len(free) - 1,
                guard=depth + len(part) - 1 if len(free) < len(part) else -1,
            )
        )
    return found


REQUESTS = st.lists(
    st.builds(
        Request,
        instance=st.integers(1, 3),
        tick=st.integers(1, 6),
        depth=st.just(0),
        sizes=st.lists(st.integers(1, 9), min_size=1, max_size=40).map(tuple),
        staying=st.sampled_from([0, 0, 0, 2]),
    ),
    max_size=8,
    # One request of an instance a tick, as within a ms.
    unique_by=lambda request: (request.instance, request.tick),
)


def chains_of(requests: Sequence[Request]) -> list[Chain]:
    runs = [run for number, one in enumerate(requests) for run in runs_of(one, number)]
    runs.sort(key=lambda run: run.score)
    chains, found = Chains(), list[Chain]()
    for tick in sorted({run.tick_ms for run in runs}):
        found += chains.of([run for run in runs if run.tick_ms == tick])
    return found


def at_once(work: Coroutine[Any, Any, Plan]) -> Plan:
    """The result of what waits for nothing; an event loop for each example would take its time."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


def planned(requests: Sequence[Request], goal: Goal, budget: ReclaimBudget = LRU, most: int = 10**6) -> Plan:
    chains = chains_of(requests)

    async def source(instance: int | None) -> AsyncIterator[Chain]:
        for chain in chains:
            if instance in (None, chain.instance):
                yield chain

    available: dict[int, int] = {}
    for chain in chains:
        for run in chain.runs:
            worth = len(run.sizes) if goal.in_blocks else run.size
            available[chain.instance] = available.get(chain.instance, 0) + worth
    return at_once(make_plan(source, budget, goal, available, most))


def naive(requests: Sequence[Request]) -> list[tuple[int, int, int, int]]:
    """(tick, instance, depth, bytes) of every block that may go, in the order in which they go.

    What is being written holds up all that lies above it in its request, which is all of it here.
    """
    blocks = [
        (one.tick, one.instance, one.depth + at, size)
        for one in requests
        if not one.staying
        for at, size in enumerate(one.sizes)
    ]
    return sorted(blocks, key=lambda block: (block[0], -block[2]))


def blocks_of(picks: Sequence[Pick]) -> list[tuple[int, int, int, int]]:
    return [
        (one.run.tick_ms, one.run.instance, one.run.depth_of(at), one.run.sizes[at])
        for one in picks
        for at in range(one.blocks)
    ]


@given(REQUESTS, st.integers(0, 300), st.booleans())
def test_what_goes_is_enough_and_not_one_block_more(requests, amount, in_blocks):
    plan = planned(requests, Goal(amount, in_blocks))
    taken = [1 if in_blocks else block[3] for block in blocks_of(plan.picks)]
    everything = sum(1 if in_blocks else block[3] for block in naive(requests))
    assert sum(taken) >= min(amount, everything)
    assert not taken or sum(taken) - max(taken) < amount
    assert plan.blocks == len(taken)
    assert plan.size == sum(block[3] for block in blocks_of(plan.picks))


@given(REQUESTS, st.integers(0, 300))
def test_the_coldest_of_the_group_go_first_whoever_has_them(requests, amount):
    taken = blocks_of(planned(requests, Goal(amount, in_blocks=True)).picks)
    ticks = sorted(block[0] for block in naive(requests))
    assert sorted(block[0] for block in taken) == ticks[: len(taken)], "a newer block before an older one"


@given(REQUESTS, st.integers(0, 300), st.sampled_from(list(ReclaimBudget)))
def test_what_stays_of_a_request_is_its_beginning(requests, amount, budget):
    taken = blocks_of(planned(requests, Goal(amount, in_blocks=True), budget).picks)
    for one in requests:
        gone = {block[2] for block in taken if block[:2] == (one.tick, one.instance)}
        assert gone == set(range(one.depth + len(one.sizes) - len(gone), one.depth + len(one.sizes)))
        assert not (gone and one.staying), "what one being written depends on"


@given(REQUESTS, st.sampled_from(list(ReclaimBudget)))
def test_everything_that_may_go_goes_when_it_has_to(requests, budget):
    plan = planned(requests, Goal(10**9), budget)
    assert plan.is_all
    assert sorted(blocks_of(plan.picks)) == sorted(naive(requests))


@given(REQUESTS, st.integers(1, 200), st.integers(1, 50), st.sampled_from(list(ReclaimBudget)))
def test_no_more_is_chosen_ahead_than_is_asked_for(requests, amount, most, budget):
    plan = planned(requests, Goal(amount, in_blocks=True), budget, most)
    assert plan.blocks <= most
    possible = min(amount, most, len(naive(requests)))
    assert plan.blocks == possible


@pytest.mark.parametrize(
    ("budget", "given_by"),
    [(LRU, {1: 40}), (PROPORTIONAL, {1: 20, 2: 10, 3: 10}), (FIXED, {1: 14, 2: 13, 3: 13})],
)
def test_budgets(budget, given_by):
    requests = [
        Request(1, 1, 0, (5,) * 40),
        Request(2, 2, 0, (5,) * 20),
        Request(3, 3, 0, (5,) * 20),
    ]
    found = dict.fromkeys(given_by, 0)
    for _, instance, _, _ in blocks_of(planned(requests, Goal(40, in_blocks=True), budget).picks):
        found[instance] = found.get(instance, 0) + 1
    assert sorted(found.values(), reverse=True) == sorted(given_by.values(), reverse=True)
    assert sum(found.values()) == 40


def test_what_an_instance_cannot_give_the_others_do():
    requests = [Request(1, 1, 0, (5,) * 10, staying=1), Request(2, 2, 0, (5,) * 40)]
    chains = chains_of(requests)

    async def source(instance: int | None) -> AsyncIterator[Chain]:
        for chain in chains:
            if instance in (None, chain.instance):
                yield chain

    plan = at_once(make_plan(source, FIXED, Goal(20, in_blocks=True), {1: 10, 2: 40}, 1000))
    assert {block[1] for block in blocks_of(plan.picks)} == {2}
    assert plan.blocks == 20


def test_a_chain_deeper_than_scores_tell_goes_from_its_end():
    """Beyond 4,095 every run has the same score: the later written and the later ordinals lie deeper."""
    runs = [
        RunView(1, 0, b"%08d" % session + ordinal.to_bytes(2), 7 * TICK, 1, (1,) * 16, 15, written_ms=session)
        for session in (1, 2)
        for ordinal in range(3)
    ]
    (chain,) = Chains().of(runs)
    assert [run.name for run in chain.runs] == [run.name for run in reversed(runs)]


def test_over_several_shards_a_chain_is_cut_by_depth():
    """Shard 0 has the blocks of even depth, shard 1 the others."""
    runs = [
        RunView(
            1, shard, b"sessions" + bytes([shard << 4, 0]), 9 * TICK + TICK - 1 - shard, 1, (1,) * 8, 7, 2
        )
        for shard in (0, 1)
    ]
    chains = Chains().of(runs)
    plan = Plan()
    plan.add(pick(chains[0], [Goal(5, in_blocks=True)], 100))
    depths = sorted(block[2] for block in blocks_of(plan.picks))
    assert depths == [11, 12, 13, 14, 15]


@pytest.mark.parametrize(
    ("heat", "level"),
    [(0, 0), (0.49, 0), (0.5, 1), (0.99, 1), (1, 2), (1.9, 2), (2, 3), (3.9, 3), (1024, 12)],
)
def test_levels_of_use_are_steps_of_two(heat, level):
    assert heat_level(heat) == level
