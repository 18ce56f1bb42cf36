"""Refreshes the recency of runs that reads used: collected per run, flushed about once a second.

For groups whose policy brings blocks back (core/migration.py), and for those that give back what is
used least, it is also counted how often.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kvcm_platform.core import migration
from kvcm_platform.core.registry import InstanceEntry, Registry
from kvcm_platform.core.types import ReclaimPolicy

from . import codec, keyspace, records
from .connection import Connection, each_to_its_end
from .shards import of_run

if TYPE_CHECKING:
    from .redis_index import RedisIndex

_TOUCH = struct.Struct(">10sH6s")
_USES = struct.Struct(">10sI")
MAX_RUNS = 200_000
MAX_KEYS = 1_000_000
CHUNK = 512

_Touched = dict[bytes, tuple[int, int]]
"""Run -> (depth, tick) of its last use."""
_KeyTouch = tuple[InstanceEntry, Sequence[int], int, int]
"""Blocks by their keys, the depth of the first, and the tick."""


class RecencyBuffer:
    """What was used since the last flush. Past its limits new touches are dropped and counted.

    A tick is the time of a request (the server's ms); all that one request used has the same one, so
    that within a chain only the depth decides.
    """

    def __init__(self, index: RedisIndex) -> None:
        self._index = index
        self._connection = index.connection
        self._runs: dict[int, _Touched] = {}
        self._keys: list[_KeyTouch] = []
        self._chunks: dict[tuple[int, int], tuple[dict[bytes, int], int, int]] = {}
        self._run_count = self._key_count = 0
        self._counted: dict[int, bytes] = {}
        """Instances whose uses are counted -> numbers of the storages where they count, two bytes each."""
        self._ranked: frozenset[int] = frozenset()
        """Those whose runs are given back by how often they are used."""
        self._counted_of: Registry | None = None
        self._uses: dict[int, Counter[bytes]] = {}
        self._chunk_uses: Counter[tuple[int, int]] = Counter()
        self.dropped = 0

    def count_for(self, registry: Registry) -> None:
        """From now on uses are counted where a policy of the registry asks for it."""
        if registry is not self._counted_of:
            self._counted_of = registry
            self._counted = {
                number: b"".join(storage.to_bytes(2) for storage in storages)
                for number, storages in migration.promoting(registry).items()
            }
            ranked = {g.name for g in registry.groups.values() if g.reclaim.policy is ReclaimPolicy.LFU}
            self._ranked = frozenset(
                entry.number for entry in registry.instances.values() if entry.group in ranked
            )

    def touch(self, instance: InstanceEntry, found: Sequence[bytes | None], depth: int, tick: int) -> None:
        if self._run_count > MAX_RUNS:
            self.dropped += 1
            return
        rows = self._runs.setdefault(instance.number, {})
        before = len(rows)
        touched = records.runs(found, depth)
        for run, position in touched.items():
            rows[run] = (position, tick)
        self._run_count += len(rows) - before
        if instance.number in self._counted or instance.number in self._ranked:
            self._uses.setdefault(instance.number, Counter()).update(touched.keys())

    def touch_runs(self, instance_number: int, runs: dict[bytes, int], depth: int, tick: int) -> None:
        """The runs of a cached chunk whose first block is at `depth`; expanded only when flushed."""
        if len(self._chunks) > MAX_RUNS:
            self.dropped += 1
            return
        self._chunks[instance_number, id(runs)] = (runs, depth, tick)
        if instance_number in self._counted or instance_number in self._ranked:
            self._chunk_uses[instance_number, id(runs)] += 1

    def touch_keys(self, instance: InstanceEntry, keys: Sequence[int], depth: int, tick: int) -> None:
        """Blocks whose runs are not known here; looked up only when flushed."""
        if self._key_count > MAX_KEYS:
            self.dropped += 1
            return
        self._keys.append((instance, keys, depth, tick))
        self._key_count += len(keys)

    async def flush(self) -> None:
        """Tells the servers, none of which waits for another; what one does not take is lost."""
        runs, self._runs, self._run_count = self._runs, {}, 0
        chunks, self._chunks = self._chunks, {}
        uses, self._uses = self._uses, {}
        chunk_uses, self._chunk_uses = self._chunk_uses, Counter()
        for (number, name), (found, depth, at) in chunks.items():
            if times := chunk_uses[number, name]:
                uses.setdefault(number, Counter()).update(dict.fromkeys(found, times))
            rows = runs.setdefault(number, {})
            for run, position in found.items():
                if rows.get(run, (0, 0))[1] < at:
                    rows[run] = (depth + position, at)
        keys, self._keys, self._key_count = self._keys, [], 0
        by_instance: dict[int, list[_KeyTouch]] = {}
        for touch in keys:
            by_instance.setdefault(touch[0].number, []).append(touch)
        by_server: dict[Connection, list[int]] = {}
        for number in dict.fromkeys([*runs, *by_instance]):
            server = self._connection.server_of(keyspace.instance(number, 0))
            by_server.setdefault(server, []).append(number)

        async def tell(numbers: Sequence[int]) -> None:
            for number in numbers:
                touched = runs.get(number, {})
                await self._resolve(by_instance.get(number, ()), touched)
                await self._send(number, touched)
                await self._send_uses(number, uses.get(number, {}))

        await each_to_its_end([tell(numbers) for numbers in by_server.values()])

    async def _send(self, number: int, touched: _Touched) -> None:
        by_shard: dict[int, list[bytes]] = {}
        for run, (depth, tick) in touched.items():
            packed = _TOUCH.pack(run, min(depth, 0xFFFF), tick.to_bytes(6))
            by_shard.setdefault(of_run(run), []).append(packed)
        for shard, items in by_shard.items():
            base = keyspace.instance(number, shard)
            for start in range(0, len(items), CHUNK):
                await self._index.function("kvcm_touch", base, b"".join(items[start : start + CHUNK]))

    async def _send_uses(self, number: int, uses: Mapping[bytes, int]) -> None:
        by_shard: dict[int, list[bytes]] = {}
        for run, times in uses.items():
            by_shard.setdefault(of_run(run), []).append(_USES.pack(run, times))
        for shard, items in by_shard.items():
            base = keyspace.instance(number, shard)
            for start in range(0, len(items), CHUNK):
                blob = b"".join(items[start : start + CHUNK])
                if number in self._counted:
                    await self._index.function("kvcm_heat", base, self._counted[number], blob)
                if number in self._ranked:
                    await self._index.function("kvcm_uses", base, blob)

    async def _resolve(self, touches: Sequence[_KeyTouch], touched: _Touched) -> None:
        """Adds the runs of touched keys of one instance; the last touch of a key counts."""
        latest: dict[int, tuple[int, int]] = {}
        for _, keys, depth, tick in touches:
            latest.update((int(key), (position, tick)) for position, key in enumerate(keys, depth))
        items = list(latest.items())
        for start in range(0, len(items), CHUNK):
            part = items[start : start + CHUNK]
            found = await self._index.read_records(touches[0][0], [key for key, _ in part])
            for record, (_, (position, tick)) in zip(found, part, strict=True):
                for run in codec.run_names(record) if record is not None else ():
                    if touched.get(run, (0, 0))[1] < tick:
                        touched[run] = (position, tick)
