"""Refreshes the recency of runs that reads used: collected per run, flushed about once a second."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvcm_platform.core.registry import InstanceEntry

from . import codec, keyspace, records

if TYPE_CHECKING:
    from .redis_index import RedisIndex

_TOUCH = struct.Struct(">10sHI")
MAX_RUNS = 200_000
MAX_KEYS = 1_000_000
CHUNK = 512


class RecencyBuffer:
    """What was used since the last flush. Past its limits new touches are dropped and counted.

    A tick is the time of a request (the server's ms); all that one request used has the same one, so
    that within a chain only the depth decides.
    """

    def __init__(self, index: RedisIndex) -> None:
        self._index = index
        self._connection = index.connection
        self._runs: dict[str, dict[bytes, tuple[int, int]]] = {}
        self._keys: dict[str, dict[int, tuple[int, int]]] = {}
        self._chunks: dict[tuple[str, int], tuple[dict[bytes, int], int, int]] = {}
        self._run_count = self._key_count = 0
        self.dropped = 0

    def touch(self, instance: InstanceEntry, found: Sequence[bytes | None], depth: int, tick: int) -> None:
        if self._run_count > MAX_RUNS:
            self.dropped += 1
            return
        rows = self._runs.setdefault(keyspace.instance(instance.number, 0), {})
        before = len(rows)
        for run, position in records.runs(found, depth).items():
            rows[run] = (position, tick)
        self._run_count += len(rows) - before

    def touch_runs(self, base: str, runs: dict[bytes, int], depth: int, tick: int) -> None:
        """The runs of a cached chunk whose first block is at `depth`; expanded only when flushed."""
        if len(self._chunks) > MAX_RUNS:
            self.dropped += 1
            return
        self._chunks[base, id(runs)] = (runs, depth, tick)

    def touch_keys(self, instance: InstanceEntry, keys: Sequence[int], depth: int, tick: int) -> None:
        if self._key_count > MAX_KEYS:
            self.dropped += 1
            return
        rows = self._keys.setdefault(keyspace.instance(instance.number, 0), {})
        before = len(rows)
        for position, key in enumerate(keys, depth):
            rows[key] = (position, tick)
        self._key_count += len(rows) - before

    async def flush(self) -> None:
        keys, self._keys, self._key_count = self._keys, {}, 0
        for base, rows in keys.items():
            await self._resolve(base, rows)
        chunks, self._chunks = self._chunks, {}
        for (base, _), (found, depth, at) in chunks.items():
            rows_of_base = self._runs.setdefault(base, {})
            for run, position in found.items():
                if rows_of_base.get(run, (0, 0))[1] < at:
                    rows_of_base[run] = (depth + position, at)
        runs, self._runs, self._run_count = self._runs, {}, 0
        now = self._connection.now_ms()
        for base, touched in runs.items():
            items = list(touched.items())
            for start in range(0, len(items), CHUNK):
                blob = b"".join(
                    _TOUCH.pack(run, min(depth, 0xFFFF), max(0, now - at))
                    for run, (depth, at) in items[start : start + CHUNK]
                )
                await self._index.function("kvcm_touch", base, blob)

    async def _resolve(self, base: str, rows: dict[int, tuple[int, int]]) -> None:
        """Turns touched keys into touched runs."""
        touched = self._runs.setdefault(base, {})
        items = list(rows.items())
        for start in range(0, len(items), CHUNK):
            part = items[start : start + CHUNK]
            fields = [codec.pack_keys((key,)) for key, _ in part]
            found = await self._connection.call("HMGET", keyspace.blocks(base), *fields)
            for record, (_, (depth, at)) in zip(found, part, strict=True):
                for run in codec.run_names(record) if record is not None else ():
                    if touched.get(run, (0, 0))[1] < at:
                        touched[run] = (depth, at)
