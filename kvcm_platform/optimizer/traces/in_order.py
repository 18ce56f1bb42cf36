"""From requests in the order of their source to the columns of a trace: by time, with path ids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..compiled import compiled_allocating
from .columns import NpyWriter, map_column
from .path_ids import PathIds
from .progress import Throttle
from .request_columns import COLUMNS, RequestColumns, session_numbers

_CHUNK_BLOCKS = 1 << 20
_CHUNK_REQUESTS = 1 << 16
_EPOCH_US = 1_000_000_000_000_000
"""Times from here on (2001) are unix times; smaller ones count from the start of the trace."""


def put_in_order(columns: RequestColumns, directory: Path, tell: Throttle) -> int:
    """Makes the column files those of a Trace and returns its `start_us`.

    Memory: some arrays of 8 bytes a request, and chunks; all that is of blocks stays in files.
    """
    order = None
    if not columns.is_in_order:
        order = np.argsort(map_column(directory / "at_us.npy", np.int64), kind="stable")
        for name, kind in COLUMNS.items():
            _rewrite(directory / f"{name}.npy", kind, order)
    start_us = _shift_times(directory / "at_us.npy")
    _number_sessions(directory, order)
    _give_path_ids(directory, order, columns.blocks, tell)
    return start_us


def _rewrite(path: Path, kind: type, order: NDArray[np.int64]) -> None:
    old = map_column(path, kind)
    replaced = NpyWriter(path.with_suffix(".scratch"), kind)
    for begin in range(0, len(order), _CHUNK_REQUESTS):
        replaced.append(old[order[begin : begin + _CHUNK_REQUESTS]])
    replaced.close()
    replaced.path.rename(path)


def _shift_times(path: Path) -> int:
    """Times since the start: unix times lose that of the first request, which is returned."""
    at_us = map_column(path, np.int64)
    first = int(at_us[0])
    start_us = first if first >= _EPOCH_US else 0
    shift = start_us or min(first, 0)
    if shift:
        replaced = NpyWriter(path.with_suffix(".scratch"), np.int64)
        for begin in range(0, len(at_us), _CHUNK_REQUESTS):
            replaced.append(at_us[begin : begin + _CHUNK_REQUESTS] - shift)
        replaced.close()
        replaced.path.rename(path)
    return start_us


def _number_sessions(directory: Path, order: NDArray[np.int64] | None) -> None:
    hashes = map_column(directory / "session.scratch", np.int64)
    writer = NpyWriter(directory / "session.npy", np.int32)
    writer.append(session_numbers(hashes if order is None else hashes[order]))
    writer.close()
    (directory / "session.scratch").unlink()


def _give_path_ids(directory: Path, order: NDArray[np.int64] | None, blocks: int, tell: Throttle) -> None:
    ids = PathIds(directory)
    path = NpyWriter(directory / "path.npy", np.int32)
    instance = map_column(directory / "instance.npy", np.int32)
    chunks = _as_read(directory) if order is None else _by_time(directory, order)
    done = first = 0
    for keys, offset in chunks:
        end = first + len(offset) - 1
        path.append(ids.assign(keys, offset, np.array(instance[first:end])))
        first = end
        done += len(keys)
        tell(done / max(1, blocks))
    path.close()
    ids.finish()
    (directory / "keys.scratch").unlink()


Chunk = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Keys of whole requests, and offsets into them."""


def _as_read(directory: Path) -> Iterator[Chunk]:
    keys = map_column(directory / "keys.scratch", np.int64)
    offset = map_column(directory / "offset.npy", np.int64)
    first, requests = 0, len(offset) - 1
    while first < requests:
        local = _fitting(offset[first : first + _CHUNK_REQUESTS + 1])
        yield np.array(keys[local[0] : local[-1]]), local - local[0]
        first += len(local) - 1


def _by_time(directory: Path, order: NDArray[np.int64]) -> Iterator[Chunk]:
    """As `_as_read`, in another order; at the end offset.npy has that order too."""
    keys = map_column(directory / "keys.scratch", np.int64)
    offset = map_column(directory / "offset.npy", np.int64)
    writer = NpyWriter(directory / "offset.scratch", np.int64)
    writer.append(np.zeros(1, np.int64))
    first = total = 0
    while first < len(order):
        chosen = order[first : first + _CHUNK_REQUESTS]
        begins = offset[chosen]
        lengths = offset[chosen + 1] - begins
        local = _fitting(np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))))
        gathered = np.empty(int(local[-1]), dtype=np.int64)
        _gather(keys, begins, local, gathered)
        writer.append(local[1:] + total)
        total += int(local[-1])
        first += len(local) - 1
        yield gathered, local
    writer.close()
    writer.path.rename(directory / "offset.npy")


def _fitting(offset: NDArray[np.int64]) -> NDArray[np.int64]:
    """The offsets of the first requests that hold at most _CHUNK_BLOCKS, but of one at least."""
    fitting = int(np.searchsorted(offset, offset[0] + _CHUNK_BLOCKS, "right"))
    return offset[: max(2, fitting)]


@compiled_allocating
def _gather(keys, starts, local, gathered):  # type: ignore[no-untyped-def]
    for r in range(len(local) - 1):
        for i in range(local[r], local[r + 1]):
            gathered[i] = keys[starts[r] + i - local[r]]
