"""Instances whose index is here, their figures in Redis, and when they have gone.

Redis learns of an instance before its first block is written here (`homes.HOME`), so that no duty
of another process takes its empty keys there for all there is. A removed instance stays on the
list of `kvcm:leaving` in Redis until its last object is deleted here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from kvcm_platform.core.registry import InstanceEntry, Registry, instance_from_dict
from kvcm_platform.index import homes, keyspace, leaving
from kvcm_platform.index.shards import ShardRef, shards_of
from kvcm_platform.index.usage import push_command

from .connection import LocalConnection
from .gone import GoneMirror
from .keys import Transaction

RESIDENTS = "residents"
ABSENT_SECONDS = 60.0
"""An instance that a newer registry does not name for so long is taken for removed."""


@dataclass(slots=True)
class Resident:
    """`version`: of a registry that named the instance. The others are of time.monotonic."""

    entry: InstanceEntry
    version: int
    absent_since: float | None = None
    gone_since: float | None = None


class Residents:
    def __init__(self, connection: LocalConnection, node_id: str) -> None:
        self._keys = connection.server.keys
        self._local = connection
        self._redis = connection.remote
        self._node_id = node_id
        self.gone = GoneMirror(self._keys, self._redis)
        self._known = {
            int(number): Resident(instance_from_dict(data["entry"]), data["version"])
            for number, raw in self._keys.hash_items(RESIDENTS)
            for data in [json.loads(raw)]
        }
        self._shown: dict[ShardRef, dict[bytes, bytes]] = {}

    def __iter__(self) -> Iterator[InstanceEntry]:
        return iter([resident.entry for resident in self._known.values()])

    async def admit(self, entry: InstanceEntry, version: int) -> None:
        """Before the first block of an instance is written. `version` is that of the registry."""
        if entry.number in self._known:
            return
        base = keyspace.instance(entry.number, 0)
        await self._redis.call("HSET", base, homes.HOME, self._node_id)
        tx = Transaction(self._keys)
        data = json.dumps({"entry": asdict(entry), "version": version})
        tx.hset(RESIDENTS, {b"%d" % entry.number: data.encode()})
        tx.commit()
        self._known[entry.number] = Resident(entry, version)

    async def removed(self, registry: Registry) -> list[InstanceEntry]:
        """Those that operators removed: on the list in Redis, or long absent from the registry."""
        flat = await self._redis.call("HGETALL", keyspace.LEAVING)
        listed = {entry.number for entry in leaving.decode(flat)}
        registered = {entry.number for entry in registry.instances.values()}
        now = time.monotonic()
        gone = []
        for number, resident in self._known.items():
            if number in registered or registry.version < resident.version:
                resident.absent_since = None
            elif resident.absent_since is None:
                resident.absent_since = now
            is_absent = resident.absent_since is not None and now - resident.absent_since > ABSENT_SECONDS
            if number in listed or is_absent:
                resident.gone_since = resident.gone_since or now
                gone.append(resident.entry)
        return gone

    def is_over(self, entry: InstanceEntry) -> bool:
        """Whether a removed instance has nothing left, figures included, and nobody writes for it."""
        since = self._known[entry.number].gone_since
        if since is None or time.monotonic() - since < leaving.STAY_MS / 1000:
            return False
        return all(self._keys.hash_size(shard.base) == 0 for shard in shards_of(entry))

    async def forget(self, entry: InstanceEntry) -> None:
        """The last of a removed instance is gone here: its figures go from Redis, and it from the lists."""
        for shard in shards_of(entry):
            await self._redis.call("DEL", shard.base)
            await self.gone.drop(shard)
            await self._redis.call(*self._ended(shard))
            self._shown.pop(shard, None)
        await self._redis.call("HDEL", keyspace.LEAVING, entry.number)
        await self._redis.call("HDEL", keyspace.LEAVING_SINCE, entry.number)
        tx = Transaction(self._keys)
        tx.hdel(RESIDENTS, b"%d" % entry.number)
        tx.commit()
        self._known.pop(entry.number, None)

    def _ended(self, shard: ShardRef) -> tuple[Any, ...]:
        """An empty vector later than any: it takes what the group counts for the shard away."""
        usage = {b"gen": b"%d" % self._local.generation, b"seq": b"%d" % (1 << 52)}
        return push_command(shard, usage, {})

    async def show(self) -> None:
        """Brings what changed since the last time into Redis, for pages and reports."""
        for entry in self:
            for shard in shards_of(entry):
                await self.gone.tell([shard])
                fields = self._figures(entry, shard)
                before = self._shown.get(shard)
                if fields == before:
                    continue
                if before is None:
                    before = dict.fromkeys(await self._redis.call("HKEYS", shard.base), b"")
                await self._show(shard, fields, before)
                self._shown[shard] = fields

    def _figures(self, entry: InstanceEntry, shard: ShardRef) -> dict[bytes, bytes]:
        tx = Transaction(self._keys)
        fields = tx.hgetall(shard.base)
        if shard.shard == 0:
            fields[homes.HOME.encode()] = self._node_id.encode()
            open_sessions = tx.zcard(keyspace.open_sessions(entry.number, entry.shards))
            fields[homes.SESSIONS.encode()] = b"%d" % open_sessions
        return fields

    async def _show(self, shard: ShardRef, fields: dict[bytes, bytes], before: dict[bytes, bytes]) -> None:
        commands: list[tuple[Any, ...]] = []
        if fields:
            commands.append(("HSET", shard.base, *(part for item in fields.items() for part in item)))
        stale = before.keys() - fields.keys()
        if stale:
            commands.append(("HDEL", shard.base, *sorted(stale)))
        commands.append(push_command(shard, fields, {}))
        await self._redis.pipeline(commands)
