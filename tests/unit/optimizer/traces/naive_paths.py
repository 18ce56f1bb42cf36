"""The naive model of path ids: a dictionary of whole chains."""

from __future__ import annotations

from collections.abc import Sequence

from kvcm_platform.optimizer.trace import Trace


def path_ids(chains: Sequence[tuple[int, Sequence[int]]]) -> list[list[int]]:
    """Of each (instance, chain of keys): an id a block, in the order of first appearance."""
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}
    return [
        [numbers.setdefault((instance, tuple(chain[: i + 1])), len(numbers)) for i in range(len(chain))]
        for instance, chain in chains
    ]


def chains_of(trace: Trace) -> list[list[int]]:
    """The path ids of each request."""
    return [trace.path[trace.offset[r] : trace.offset[r + 1]].tolist() for r in range(trace.requests)]


def keys_of(trace: Trace) -> list[list[int]]:
    """The keys of each request's blocks."""
    return [[int(trace.key[p]) for p in chain] for chain in chains_of(trace)]


def check_paths(trace: Trace) -> None:
    """The columns of paths say the same as the chains do, and no path is there twice."""
    for r, chain in enumerate(chains_of(trace)):
        for i, path in enumerate(chain):
            assert int(trace.parent[path]) == (chain[i - 1] if i else -1)
            assert int(trace.depth[path]) == i
            assert int(trace.path_instance[path]) == int(trace.instance[r])
    rows = set(zip(trace.parent.tolist(), trace.path_instance.tolist(), trace.key.tolist(), strict=True))
    assert len(rows) == trace.distinct_blocks
