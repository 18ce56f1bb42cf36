"""Replays as the reference simulator does them equal a plain model of it, and its known figures."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.optimizer.compat import (
    EvictionMode,
    ReferenceGroup,
    ReferenceInstance,
    ReferencePolicy,
    ReferenceSettings,
    reference_curve,
)
from kvcm_platform.optimizer.compat import replay as replay_module
from kvcm_platform.optimizer.compat.replay import ReferenceReplay
from kvcm_platform.optimizer.curve import Curve, Events, Unit
from kvcm_platform.optimizer.policies import simulate
from kvcm_platform.optimizer.trace import Event, Trace, TraceInstance
from tests.support.naive_reference import MODELS, model_replay
from tests.support.optimizer_traces import Turn, mooncake_trace, needs_shared, random_turns, trace_of

INSTANCES = tuple(TraceInstance(f"i{number}", 16) for number in range(3))


def random_events(chance: random.Random, instances: int) -> list[Turn]:
    """Turns; or reads and writes. Times with ties."""
    turns = random_turns(
        chance,
        requests=chance.randint(1, 40),
        most_blocks=chance.randint(1, 10),
        keys=chance.randint(1, 3),
        instances=instances,
        is_plain=True,
    )
    if chance.random() < 0.5:
        for turn in turns:
            turn.event = chance.choice((Event.READ, Event.WRITE, Event.WRITE))
    return turns


def assert_equals_the_model(seed: int, policies: list[str], groups: list[tuple[int, list[int]]]) -> None:
    chance = random.Random(seed)
    turns = random_events(chance, len(policies))
    trace = trace_of(turns, INSTANCES[: len(policies)])
    mode = chance.choice(list(EvictionMode))
    batch = chance.choice((1, 2, 3, 10, 100))
    sample_rate = chance.choice((0.1, 0.5, 1.0, 3.0, 0.0))
    hits, sizes, written = model_replay(
        turns, policies, groups, mode=int(mode), batch=batch, sample_rate=sample_rate
    )
    settings = ReferenceSettings(
        tuple(
            ReferenceGroup(
                f"g{number}",
                quota,
                tuple(
                    ReferenceInstance(f"i{at}", ReferencePolicy(policies[at]), sample_rate) for at in members
                ),
            )
            for number, (quota, members) in enumerate(groups)
        ),
        mode,
        batch,
    )
    replay = ReferenceReplay(trace, settings, counts_sizes=True)
    pieces = list(replay.pieces())
    found = [hit for piece in pieces for hit in piece.hits.tolist()]
    assert found == hits, (seed, mode, batch)
    assert [row for piece in pieces for row in piece.sizes.tolist()] == sizes, (seed, mode, batch)
    assert [one.written for one in replay.outcomes] == written
    assert [one.resident for one in replay.outcomes] == sizes[-1]
    assert replay.evicted == sum(written) - sum(sizes[-1])


@pytest.mark.parametrize("policy", MODELS)
def test_one_instance_equals_the_model(policy: str) -> None:
    for seed in range(400):
        assert_equals_the_model(seed, [policy], [(seed % 23, [0])])


@pytest.mark.long
@pytest.mark.parametrize("policy", MODELS)
def test_thousands_of_traces_equal_the_model(policy: str) -> None:
    for seed in range(100_000, 104_000):
        assert_equals_the_model(seed, [policy], [(seed % 31, [0])])


def test_several_instances_in_groups_equal_the_model() -> None:
    names = list(MODELS)
    for seed in range(400):
        policies = [names[(seed // 3**at) % 3] for at in range(3)]
        groups = [(seed % 17, [2, 0, 1])] if seed % 2 else [(seed % 13, [1]), (seed % 7, [2, 0])]
        assert_equals_the_model(10_000 + seed, policies, groups)


def test_pieces_go_on_where_the_last_one_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_module, "CHUNK_BLOCKS", 7)
    for seed in range(30):
        assert_equals_the_model(seed, ["leaf_aware_lru", "random_lru"], [(seed % 9, [0, 1])])


def hits_of(keys: list[list[int]], capacity: int) -> int:
    trace = trace_of([Turn(chain, at) for at, chain in enumerate(keys)])
    curve = simulate(trace, "compat:lru", [capacity], parameters={"eviction_mode": 3, "batch_size": 1})
    return int(curve.hit_blocks[0])


def test_it_is_no_stack_algorithm() -> None:
    """OPTIMIZER.md 2: the smallest case in which more capacity gives fewer hits."""
    requests = [[1, 0, 0, 0], [1, 0], [1, 0]]
    assert hits_of(requests, 2) == 2
    assert hits_of(requests, 3) == 1


def test_leaf_aware_lru_may_stay_above_its_quota() -> None:
    """A block written again into a node with an empty child is in no eviction list."""
    above = 0
    for seed in range(600):
        chance = random.Random(seed)
        trace = trace_of(random_turns(chance, requests=30, most_blocks=8, keys=2, is_plain=True))
        curve = simulate(
            trace, "compat:leaf_aware_lru", [2], parameters={"eviction_mode": 3, "batch_size": 1}
        )
        above += curve.series["resident_blocks"][0] > 2
    assert above > 0


@pytest.fixture(scope="module")
def conversation() -> Trace:
    """The request's number is its time, as in the runs that the figures are from."""
    trace = mooncake_trace("conversation")
    return replace(trace, at_us=np.arange(trace.requests, dtype=np.int64))


@needs_shared
@pytest.mark.parametrize(
    ("policy", "mode", "hits"),
    [
        ("lru", EvictionMode.GROUP_ROUGH, [12608, 60308, 93946, 102290]),
        ("random_lru", EvictionMode.GROUP_ROUGH, [12600, 53161, 88043, 101517]),
        ("leaf_aware_lru", EvictionMode.INSTANCE_PRECISE, [12831, 60921, 93967, 102290]),
    ],
)
def test_known_hits_of_the_conversation_trace(
    policy: str, mode: EvictionMode, hits: list[int], conversation: Trace
) -> None:
    """OPTIMIZER.md 2, with batches of 100."""
    told: list[float] = []
    curve = simulate(
        conversation,
        f"compat:{policy}",
        [1_000, 10_000, 30_000, 50_000],
        parameters={"eviction_mode": int(mode)},
        on_progress=told.append,
    )
    assert curve.hit_blocks.tolist() == hits
    assert curve.blocks == 288_500
    assert curve.requests == 12_031
    assert curve.definition.parameters["batch_size"] == 100
    assert told == sorted(told)
    assert told[-1] == 1.0


@needs_shared
def test_the_native_rate_at_1000_blocks_is_a_little_higher(conversation: Trace) -> None:
    """OPTIMIZER.md 7: .0445 against .0437."""
    assert simulate(conversation, "lru", [1_000]).hit_rate[0].round(4) == 0.0445
    assert simulate(conversation, "compat:lru", [1_000]).hit_rate[0].round(4) == 0.0437


def test_tokens_and_positions_of_hits() -> None:
    instance = (TraceInstance("i0", block_tokens=10, block_bytes=7),)
    turns = [
        Turn([1, 2, 3], 0, input_tokens=25),
        Turn([1, 2, 3], 1, input_tokens=25),
        Turn([1, 2, 4], 2, skip_n=1, event=Event.READ),
    ]
    curve = reference_curve(trace_of(turns, instance, has_partial_blocks=True), "lru", [10])
    assert curve.hit_blocks.tolist() == [3 + 1]
    assert curve.hit_tokens.tolist() == [25 + 10]
    assert curve.hit_bytes.tolist() == [4 * 7]
    assert curve.hit_token_positions.tolist() == [sum(range(25)) + sum(range(10, 20))]
    assert curve.full_hit_requests.tolist() == [1]
    assert (curve.blocks, curve.tokens, curve.requests) == (3 + 3 + 2, 25 + 25 + 20, 3)
    assert curve.unlimited_hit_blocks == 4


def test_a_quota_is_the_share_of_the_capacity_rounded_down() -> None:
    trace = trace_of([Turn([1, 2, 3, 4, 5], 0), Turn([6], 1)])
    curve = simulate(
        trace, "compat:lru", [5], parameters={"eviction_mode": 3, "used_percentage": 0.7, "batch_size": 1}
    )
    assert curve.series["resident_blocks"].tolist() == [3]
    assert curve.series["written_blocks"].tolist() == [6]
    assert curve.series["evicted_blocks"].tolist() == [3]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"policy": "compat:ttl"}, "policy"),
        ({"unit": Unit.BYTES}, "unit"),
        ({"events": Events.READ_WRITE}, "events"),
        ({"parameters": {"samples": 3}}, "parameters"),
        ({"parameters": {"eviction_mode": 4}}, "parameters.eviction_mode"),
        ({"parameters": {"batch_size": 0}}, "eviction_batch_size_per_instance"),
        ({"parameters": {"batch_size": 1.5}}, "parameters.batch_size"),
        ({"parameters": {"used_percentage": 0}}, "parameters.used_percentage"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, object], field: str) -> None:
    given: dict[str, object] = {"policy": "compat:lru", "capacities": [1], **arguments}
    with pytest.raises(DomainError) as caught:
        simulate(trace_of([Turn([1], 0)]), **given)  # type: ignore[arg-type]
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert caught.value.field == field


def test_an_instance_that_no_group_lists_is_named() -> None:
    with pytest.raises(DomainError, match="'i0'"):
        ReferenceReplay(trace_of([Turn([1], 0)]), ReferenceSettings(()))


def test_a_trace_without_requests_has_no_hits() -> None:
    curve: Curve = reference_curve(trace_of([]), "leaf_aware_lru", [5])
    assert curve.hit_blocks.tolist() == [0]
    assert curve.blocks == 0
