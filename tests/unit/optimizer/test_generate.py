"""Generated traces are whole, repeatable and shaped as asked."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from kvcm_platform.core.errors import DomainError
from kvcm_platform.optimizer.generate import TYPES, Shape, generate, generate_into
from kvcm_platform.optimizer.trace import NO_PARENT, Trace


def check_whole(trace: Trace) -> None:
    """What trace.py promises of every trace."""
    seen = 0
    ends: dict[int, list[int]] = {}
    for request in range(trace.requests):
        chain = trace.path[trace.offset[request] : trace.offset[request + 1]].tolist()
        above = NO_PARENT
        for level, path in enumerate(chain):
            assert path <= seen, "ids come in the order of first appearance"
            seen = max(seen, path + 1)
            assert trace.parent[path] == above
            assert trace.depth[path] == level
            assert trace.path_instance[path] == trace.instance[request]
            above = path
        assert trace.skip_n[request] == 0 < trace.read_n[request] <= len(chain)
        before = ends.get(int(trace.session[request]), [])
        assert chain[: len(before)] == before, "a session goes on with its chain"
        ends[int(trace.session[request])] = chain
    assert seen == trace.distinct_blocks
    assert (np.diff(trace.at_us) >= 0).all()
    assert len(np.unique(trace.key)) == trace.distinct_blocks


@pytest.mark.parametrize("is_output_kept", [False, True])
def test_it_is_a_trace(is_output_kept: bool) -> None:
    trace = generate(
        3000,
        seed=3,
        shape=Shape(instances=3, system_prompts=50, block_tokens=64, is_output_kept=is_output_kept),
    )
    check_whole(trace)
    assert set(trace.instance.tolist()) == {0, 1, 2}
    assert trace.header.types == TYPES
    assert set(trace.type.tolist()) == {0, 1, 2}
    assert (trace.input_tokens // 64 == trace.read_n).all()
    assert bool((np.diff(trace.offset) > trace.read_n).any()) is is_output_kept


def test_the_same_seed_makes_the_same_trace() -> None:
    one, same, other = generate(500, seed=1), generate(500, seed=1), generate(500, seed=2)
    for column in dataclasses.fields(Trace):
        left, right = getattr(one, column.name), getattr(same, column.name)
        assert left == right if column.name == "header" else (left == right).all(), column.name
    assert one.path.tolist() != other.path.tolist()


def test_a_directory_holds_the_same_trace(tmp_path: Path) -> None:
    shape = Shape(instances=2, system_prompts=20)
    told: list[float] = []
    mapped = generate_into(tmp_path / "made", 300, seed=1, shape=shape, on_progress=told.append)
    made = generate(300, seed=1, shape=shape)
    for column in dataclasses.fields(Trace):
        left, right = getattr(mapped, column.name), getattr(made, column.name)
        assert left == right if column.name == "header" else (left == right).all(), column.name
    assert told[-1] == 1.0
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_it_is_like_the_one_of_the_document() -> None:
    """About 25 blocks a request and 61 % ideal hits (OPTIMIZER.md)."""
    trace = generate(100_000)
    assert 22 < trace.blocks / trace.requests < 28
    assert 0.55 < 1 - trace.distinct_blocks / trace.blocks < 0.66


@pytest.mark.parametrize(
    ("requests", "shape", "field"),
    [
        (0, Shape(), "requests"),
        (10**12, Shape(), "requests"),
        (1, Shape(instances=0), "instances"),
        (1, Shape(system_prompts=10**9), "system_prompts"),
        (1, Shape(block_tokens=0), "block_tokens"),
        (1, Shape(instances=1000, system_prompts=1_000_000), "system_prompts"),
    ],
)
def test_bad_shapes_are_refused(requests: int, shape: Shape, field: str) -> None:
    with pytest.raises(DomainError) as refused:
        generate(requests, shape=shape)
    assert refused.value.field == field


@pytest.mark.parametrize("seed", [-1, 2**70])
def test_bad_seeds_are_refused(seed: int) -> None:
    with pytest.raises(DomainError) as refused:
        generate(1, seed=seed)
    assert refused.value.field == "seed"
