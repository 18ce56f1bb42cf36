"""Counts the blocks of an index one by one and compares with the usage that is kept along the way."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

import msgpack

from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.core.types import LocationStatus

from . import codec, keyspace
from .redis_index import RedisIndex
from .scanning import fields_of
from .shards import ShardRef, shards_of
from .stats import parse_usage
from .usage import as_dict, push

ATTEMPTS = 20
_COUNTED = frozenset({b"d", b"e", b"E", b"w", b"f"})
"""Flags of pending deletions whose bytes are still used."""
_STATE = {LocationStatus.WRITING: "w", LocationStatus.SERVING: "s"}

Amounts = dict[tuple[int, str], tuple[int, int]]
"""(storage ref, state) -> (bytes, blocks); states w writing, s serving, p pending deletion."""

ReadInstances = Callable[[], Awaitable[Sequence[InstanceEntry]]]
"""Gives the instances of a group as they are at that moment, removed ones with data left included."""


class StillChanging(Exception):
    """The shard changed during every attempt: stop the traffic or try again."""


@dataclass(frozen=True, slots=True)
class ShardCount:
    instance: InstanceEntry
    shard: ShardRef
    kept: Amounts
    counted: Amounts
    sequence: int


@dataclass(slots=True)
class GroupCount:
    """A group's side: what its quota works with, against the sum over its shards."""

    name: str
    used: int
    recounted: int
    reserved: int
    drift: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def has_drift(self) -> bool:
        return bool(self.drift) or self.used != self.recounted


async def count_instance(index: RedisIndex, instance: InstanceEntry) -> list[ShardCount]:
    return [await count_shard(index, instance, shard) for shard in shards_of(instance)]


async def count_shard(index: RedisIndex, instance: InstanceEntry, shard: ShardRef) -> ShardCount:
    """A count that no change disturbed. Raises StillChanging after ATTEMPTS."""
    base = shard.base
    for attempt in range(ATTEMPTS):
        before = as_dict(await index.connection.call("HGETALL", base))
        counted = await _count(index, base)
        after = as_dict(await index.connection.call("HGETALL", base))
        if before.get(b"seq") == after.get(b"seq"):
            sequence = int(after.get(b"seq", b"0"))
            return ShardCount(instance, shard, parse_usage(after), counted, sequence)
        await asyncio.sleep(0.1 * (attempt + 1))
    raise StillChanging(instance.instance_id)


async def _count(index: RedisIndex, base: str) -> Amounts:
    totals: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])

    def add(where: tuple[int, str], size: int) -> None:
        totals[where][0] += size
        totals[where][1] += 1

    async for record in _values(index, keyspace.blocks(base)):
        for location in codec.locations(record):
            # A DELETING location counts through its entry on the pending list.
            if location.status in _STATE:
                add((location.storage_ref, _STATE[LocationStatus(location.status)]), location.size)
    async for value in _values(index, keyspace.pending(base)):
        flag, _, entry = codec.split_pending(value)
        if flag in _COUNTED:
            location = next(codec.locations(entry))
            add((location.storage_ref, "p"), location.size)
    return {where: (amounts[0], amounts[1]) for where, amounts in totals.items()}


async def _values(index: RedisIndex, name: str) -> AsyncIterator[bytes]:
    """Values of a hash, each once: fields are remembered."""
    seen: set[bytes] = set()
    async for key, value in fields_of(index, name):
        if key not in seen:
            seen.add(key)
            yield value


async def recount_group(
    index: RedisIndex, name: str, number: int, read_instances: ReadInstances, *, repair: bool
) -> GroupCount:
    """Compares, and with `repair` corrects, one group and its instances.

    Raises StillChanging when the group never stood still between its count and the comparison, and
    what `read_instances` does.
    """
    if repair:
        instances = await read_instances()
        for instance in instances:
            for count in await count_instance(index, instance):
                await repair_shard(index, count)
        base = keyspace.group(number)
        for name_of_shard, _, _ in await _strangers(index, number, instances, read_instances):
            await index.connection.call("HDEL", keyspace.group_vectors(base), name_of_shard)
        await index.connection.call("FCALL", "kvcm_retotal", 1, base)
    for attempt in range(ATTEMPTS):
        instances = await read_instances()
        counts = [count for instance in instances for count in await count_instance(index, instance)]
        for count in counts:
            await push(index.connection, count.shard)
        totals = as_dict(await index.connection.call("HGETALL", keyspace.group(number)))
        if await _is_unchanged(index, counts):
            break
        await asyncio.sleep(0.1 * (attempt + 1))
    else:
        raise StillChanging(name)
    recounted = sum(size for count in counts for size, _ in count.counted.values())
    result = GroupCount(name, int(totals.get(b"u", b"0")), recounted, int(totals.get(b"r", b"0")))
    for name_of_shard, size, blocks in await _strangers(index, number, instances, read_instances):
        result.drift[f"unknown shard {name_of_shard}"] = {"bytes": -size, "blocks": -blocks}
    for where, kept, counted in _differences(counts):
        result.drift[where] = {"bytes": counted[0] - kept[0], "blocks": counted[1] - kept[1]}
    return result


async def _strangers(
    index: RedisIndex, number: int, earlier: Sequence[InstanceEntry], read_instances: ReadInstances
) -> list[tuple[str, int, int]]:
    """(name, bytes, blocks) of shards that the group counts although no instance of it has them.

    Instances are read after what the group counts: those that were registered since its count began
    are no strangers. Nor are the `earlier` ones, whose removal may have ended meanwhile.
    """
    rows = as_dict(await index.connection.call("HGETALL", keyspace.group_vectors(keyspace.group(number))))
    instances = [*earlier, *await read_instances()]
    known = {f"{entry.number}:{shard}" for entry in instances for shard in range(entry.shards)}
    found = []
    for raw_name, packed in rows.items():
        _, _, sizes, blocks = msgpack.unpackb(packed)
        if raw_name.decode() not in known:
            found.append((raw_name.decode(), sum(dict(sizes).values()), sum(dict(blocks).values())))
    return found


async def _is_unchanged(index: RedisIndex, counts: Sequence[ShardCount]) -> bool:
    """Whether every shard still is as it was counted."""
    now = await index.connection.pipeline([("HGET", count.shard.base, "seq") for count in counts])
    return [int(sequence or 0) for sequence in now] == [count.sequence for count in counts]


def _differences(counts: Iterable[ShardCount]) -> Iterable[tuple[str, tuple[int, int], tuple[int, int]]]:
    for count in counts:
        for where in sorted({*count.kept, *count.counted}):
            kept, counted = count.kept.get(where, (0, 0)), count.counted.get(where, (0, 0))
            if kept != counted:
                ref, state = where
                yield f"{_named(count)}/storage {ref & 0xFFFF}/{state}", kept, counted


def _named(count: ShardCount) -> str:
    name = count.instance.instance_id
    return name if count.instance.shards == 1 else f"{name}/shard {count.shard.shard}"


async def repair_shard(index: RedisIndex, count: ShardCount) -> None:
    """Sets a shard's usage to what was counted. Raises StillChanging when it changed since."""
    fields: list[str | int] = []
    for (ref, state), (size, blocks) in count.counted.items():
        fields += [f"b:{ref}:{state}", size, f"n:{ref}:{state}", blocks]
    if not await index.function("kvcm_repair", count.shard.base, count.sequence, *fields):
        raise StillChanging(count.instance.instance_id)
