"""Path ids against a dictionary of whole chains, on trees of every shape and through all that grows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kvcm_platform.optimizer.traces import TraceReadError
from kvcm_platform.optimizer.traces import path_ids as module
from kvcm_platform.optimizer.traces.path_ids import PathIds

from .naive_paths import path_ids


def chains(seed: int, requests: int, keys: int, longest: int) -> list[tuple[int, list[int]]]:
    random = np.random.default_rng(seed)
    return [
        (
            int(random.integers(0, 3)),
            [int(key) for key in random.integers(-keys, keys, size=random.integers(0, longest))],
        )
        for _ in range(requests)
    ]


def assign(ids: PathIds, made: list[tuple[int, list[int]]]) -> list[list[int]]:
    keys = np.array([key for _, chain in made for key in chain], dtype=np.int64)
    offset = np.cumsum([0, *(len(chain) for _, chain in made)], dtype=np.int64)
    instance = np.array([number for number, _ in made], dtype=np.int32)
    path = ids.assign(keys, offset, instance)
    return [path[offset[r] : offset[r + 1]].tolist() for r in range(len(made))]


@pytest.mark.parametrize(
    ("requests", "keys", "longest"),
    [(300, 1, 12), (300, 2, 9), (300, 3, 6), (2_000, 40, 4), (500, 10**6, 30), (3_000, 500, 3)],
)
def test_they_are_those_of_whole_chains(
    requests: int, keys: int, longest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST_BLOCKS", 8)
    for seed in range(3):
        (tmp_path / str(seed)).mkdir()
        made = chains(seed, requests, keys, longest)
        ids = PathIds(tmp_path / str(seed))
        half = requests // 3
        found = assign(ids, made[:half]) + assign(ids, made[half:])
        assert found == path_ids(made)
        count = ids.finish()
        assert count == len({path for chain in found for path in chain})
        assert {path.name for path in (tmp_path / str(seed)).iterdir()} == {
            "parent.npy",
            "depth.npy",
            "key.npy",
            "path_instance.npy",
        }
        parent = np.load(tmp_path / str(seed) / "parent.npy")
        key = np.load(tmp_path / str(seed) / "key.npy")
        assert len(parent) == count
        for (_, chain), paths in zip(made, found, strict=True):
            assert [int(key[path]) for path in paths] == chain
            assert [int(parent[path]) for path in paths] == [-1, *paths[:-1]][: len(paths)]


def test_they_are_bounded(tmp_path: Path) -> None:
    ids = PathIds(tmp_path, max_paths=70_000)
    with pytest.raises(TraceReadError) as refused:
        assign(ids, [(0, [r, *range(9)]) for r in range(7_001)])
    assert refused.value.code == "too_many_blocks"
