"""The columns of requests while they are read: appended to files in the order of the source."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvcm_platform.optimizer.trace import NO_SESSION

from .columns import NpyWriter
from .errors import TraceReadError
from .source_request import SourceRequest

COLUMNS = {
    "at_us": np.int64,
    "event": np.int8,
    "instance": np.int32,
    "type": np.int32,
    "input_tokens": np.int32,
    "output_tokens": np.int32,
    "skip_n": np.int32,
    "read_n": np.int32,
}
"""The columns of one number a request that the source gives."""

MAX_NAMES = 10_000
MOST_US = 2**60
"""Of a time, to either side of 0: sums of two still fit."""
MAX_PROMPT_TOKENS = 1 << 31
"""The sum of the positions of so many tokens fits 64 bits."""
_CODES = {np.int64: "q", np.int32: "i", np.int8: "b"}
_FLUSH_REQUESTS = 1 << 14
_FLUSH_BLOCKS = 1 << 18
_INT32_MAX = 2**31 - 1


class Names:
    """Numbers for names, in the order of appearance; not more than MAX_NAMES."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        found = self._numbers.get(name)
        if found is None:
            if len(self._numbers) >= MAX_NAMES:
                raise TraceReadError("too_many_names", f"more than {MAX_NAMES:,} different {self._what}")
            found = self._numbers[name] = len(self._numbers)
        return found

    def numbers(self, names: Iterable[str]) -> dict[str, int]:
        return {name: self.number(name) for name in names}

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


class RequestColumns:
    """Writes requests to column files in `directory`; keys and sessions to scratch files."""

    def __init__(self, directory: Path) -> None:
        self.instances = Names("instances")
        self.types = Names("request types")
        self.requests = 0
        self.blocks = 0
        self.is_in_order = True
        self._writers = {name: NpyWriter(directory / f"{name}.npy", kind) for name, kind in COLUMNS.items()}
        self._offset = NpyWriter(directory / "offset.npy", np.int64)
        self._session = NpyWriter(directory / "session.scratch", np.int64)
        self._keys = NpyWriter(directory / "keys.scratch", np.int64)
        self._buffers = {name: array(_CODES[kind]) for name, kind in COLUMNS.items()}
        self._offsets = array("q", [0])
        self._sessions = array("q")
        self._chunk = array("q")
        self._last_at = -(2**62)

    def append(self, request: SourceRequest, instance: str) -> None:
        """Raises ValueError for numbers that do not fit."""
        keys = request.keys
        read_n = len(keys) if request.read_n is None else request.read_n
        if request.input_tokens > _INT32_MAX or request.output_tokens > _INT32_MAX:
            raise ValueError("more tokens than 2^31")
        if not -MOST_US <= request.at_us <= MOST_US:
            raise ValueError("a time out of range")
        if not 0 <= request.skip_n <= read_n <= len(keys) <= _INT32_MAX:
            raise ValueError(f"skips {request.skip_n} and reads {read_n} of {len(keys)} blocks")
        buffers = self._buffers
        buffers["at_us"].append(request.at_us)
        buffers["event"].append(request.event)
        buffers["instance"].append(self.instances.number(instance))
        buffers["type"].append(self.types.number(request.type))
        buffers["input_tokens"].append(request.input_tokens)
        buffers["output_tokens"].append(request.output_tokens)
        buffers["skip_n"].append(request.skip_n)
        buffers["read_n"].append(read_n)
        self._sessions.append(session_hash(request.session))
        self._chunk.extend(keys)
        self.requests += 1
        self.blocks += len(keys)
        self._offsets.append(self.blocks)
        if request.at_us < self._last_at:
            self.is_in_order = False
        self._last_at = request.at_us
        if len(self._sessions) >= _FLUSH_REQUESTS or len(self._chunk) >= _FLUSH_BLOCKS:
            self._flush()

    def append_many(
        self,
        columns: dict[str, NDArray[Any]],
        sessions: NDArray[np.int64],
        lengths: NDArray[Any],
        keys: NDArray[np.int64],
    ) -> None:
        """R requests by their COLUMNS, hashes of sessions, numbers of blocks, and keys one after the other.

        The caller has checked them as `append` does.
        """
        if not len(lengths):
            return
        self._flush()
        at_us = columns["at_us"]
        if at_us[0] < self._last_at or np.any(np.diff(at_us) < 0):
            self.is_in_order = False
        self._last_at = int(at_us[-1])
        for name, kind in COLUMNS.items():
            self._writers[name].append(columns[name].astype(kind, copy=False))
        self._offset.append(self.blocks + np.cumsum(lengths, dtype=np.int64))
        self._session.append(sessions)
        self._keys.append(keys)
        self.requests += len(lengths)
        self.blocks += len(keys)

    def close(self) -> None:
        self._flush()
        for writer in (*self._writers.values(), self._offset, self._session, self._keys):
            writer.close()

    def _flush(self) -> None:
        for name, buffer in self._buffers.items():
            self._writers[name].append(buffer)
            del buffer[:]
        for writer, pending in (
            (self._offset, self._offsets),
            (self._session, self._sessions),
            (self._keys, self._chunk),
        ):
            writer.append(pending)
            del pending[:]


def session_hash(session: str) -> int:
    """64 bits that stand for the name while reading, so that names need no memory; 0 for none."""
    if not session:
        return 0
    return int.from_bytes(blake2b(session.encode(), digest_size=8).digest(), "little", signed=True) or 1


def session_numbers(hashes: NDArray[np.int64]) -> NDArray[np.int32]:
    """Numbers of sessions in the order of their appearance; NO_SESSION for hash 0."""
    distinct, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    order = np.argsort(first[distinct != 0], kind="stable")
    rank = np.full(len(distinct), NO_SESSION, dtype=np.int32)
    rank[np.flatnonzero(distinct != 0)[order]] = np.arange(len(order), dtype=np.int32)
    return rank[inverse]
