"""Memory pools in tests of the data plane: entries, a backend without nodes, and what must hold of memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import redis

from kvcm_platform.core.pool_layout import SLAB_BYTES, pool_range, slot_class
from kvcm_platform.core.registry import PoolSegment, StorageEntry
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.uris import DataUri, parse_uri
from kvcm_platform.index import functions, keyspace
from kvcm_platform.storage.backend import Capabilities, FreedObject, Ledgers, StorageKind, StoredObject

SLABS = 256


def segment(node: str = "node-1", number: int = 101, slabs: int = SLABS, **changes: Any) -> PoolSegment:
    plain = PoolSegment(node, f"{node}-1", number, "127.0.0.1:1", slabs * SLAB_BYTES)
    return replace(plain, **changes)


def pool(*segments: PoolSegment, **changes: Any) -> StorageEntry:
    plain = StorageEntry(
        "pool_01",
        9,
        StorageType.TAIR_MEMPOOL,
        {"domain": "127.0.0.1:1", "timeout": 0},
        segments=segments or (segment(),),
    )
    return replace(plain, **changes)


@dataclass(frozen=True)
class PoolFigures:
    """What is taken of a segment's memory. `by_slot`: slot bytes -> (ranges, slabs)."""

    slabs: int
    used_slabs: int
    by_slot: Mapping[int, tuple[int, int]]

    @property
    def ranges(self) -> int:
        return sum(ranges for ranges, _ in self.by_slot.values())


def pool_figures(fields: Mapping[bytes, bytes]) -> PoolFigures:
    """From the hash under a segment's base key; one that nothing was ever taken of has none."""
    ranges, slabs = (
        {int(name[4:]): int(value) for name, value in fields.items() if name.startswith(prefix)}
        for prefix in (b"p:c:", b"p:s:")
    )
    by_slot = {size: (ranges.get(size, 0), count) for size, count in slabs.items()}
    return PoolFigures(int(fields.get(b"p:slabs", 0)), int(fields.get(b"p:used", 0)), by_slot)


def figures(client: redis.Redis, number: int = 101) -> PoolFigures:
    return pool_figures(client.hgetall(keyspace.storage(number)))


def leases(client: redis.Redis, number: int = 101) -> list[bytes]:
    return client.zrange(keyspace.pool_lease_deadlines(keyspace.storage(number)), 0, -1)


@dataclass
class SegmentCalls:
    """The functions of one segment, called as the adapters do."""

    client: redis.Redis
    number: int = 101
    generation: int = 5
    slabs: int = SLABS

    def call(self, name: str, *args) -> object:
        base = keyspace.storage(self.number)
        return self.client.execute_command(
            "FCALL", functions.name(name), 1, base, str(self.generation), *args
        )

    def ask(self, wanted: list[tuple[int, int]], lease: str = "lease", insert_by: int = 1 << 45) -> list:
        """`wanted` has (payload bytes, count) pairs."""
        args: list[int] = []
        for size, count in wanted:
            kind = slot_class(size)
            args += [kind.slot_bytes, kind.slabs, kind.slots, count]
        return self.call("kvcm_pool_take", lease, insert_by, b"k" * 8, self.slabs, *args)

    def take(self, wanted: list[tuple[int, int]], **options) -> list[tuple[int, int, int]]:
        """(id, run, slot) of each range, in the order asked for."""
        reply = self.ask(wanted, **options)
        assert reply[0] == b"OK", reply
        found, number = [], reply[1]
        for at in range(0, len(reply[3]), 12):
            run, slot, count = (int.from_bytes(reply[3][at + i : at + i + 4]) for i in (0, 4, 8))
            for index in range(count):
                found.append((number, run, slot + index))
                number += 1
        return found

    def free(self, ids: list[int]) -> int:
        return self.call("kvcm_pool_free", b"".join(id.to_bytes(8) for id in ids))

    def figures(self) -> PoolFigures:
        return pool_figures(self.client.hgetall(keyspace.storage(self.number)))

    def keys(self) -> list[str]:
        """What is kept of taken memory."""
        base = keyspace.storage(self.number)
        names = [keyspace.pool_ranges(base), keyspace.pool_runs(base)]
        return [name for name in names if self.client.hlen(name)]


def check_apart(uris: Iterable[str]) -> None:
    """No two of these ranges share a byte or an id."""
    places: dict[str, list[tuple[int, int]]] = {}
    ids: set[tuple[str, int]] = set()
    for uri in uris:
        one = pool_range(parse_uri(uri))
        assert (one.node_id, one.range_id) not in ids, "a range id was issued twice"
        ids.add((one.node_id, one.range_id))
        end = one.offset + slot_class(one.size).slot_bytes
        places.setdefault(one.node_id, []).append((one.offset, end))
    for spans in places.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:], strict=False)), "overlap"


class LedgerBackend:
    """A pool whose nodes keep nothing: deletion by the ledger alone, as the real one does it."""

    def __init__(self, entry: StorageEntry, ledgers: Ledgers) -> None:
        self.entry = entry
        self._ledger = ledgers.ranges

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def usage_ratio(self) -> float | None:
        return None

    async def delete(self, objects: Sequence[FreedObject]) -> list[str]:
        assert self._ledger is not None
        back = [item for item in objects if item.was_served or item.is_second_pass]
        await self._ledger.give_back([pool_range(item.uri).range_id for item in back])
        return [""] * len(objects)

    async def settled(self, objects: Sequence[FreedObject]) -> None: ...

    async def exist(self, uris: Sequence[DataUri]) -> list[bool]:
        return [True] * len(uris)

    async def objects(self) -> AsyncIterator[StoredObject]:
        for _ in ():
            yield _

    async def claim(self, owner: str) -> str:
        return owner


LEDGER_KIND = StorageKind(
    Capabilities(has_segments=True, may_lose_content=True),
    LedgerBackend,
    lambda *_: NotImplemented,
    lambda entry: entry.name,
)
