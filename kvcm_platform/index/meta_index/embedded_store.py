"""MetaIndex records of this process alone, over a ByteStore: the `local` and `rocksdb` backends.

Tables: `r` block key -> slot (8 bytes) and record; `s` slot -> block key; `f` figures. Slots are
0..count-1 without holes (the last one moves into a gap), so a random slot is a random key, and a
scan from the last slot to the first misses nothing that stays: what moves goes towards 0.
"""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Sequence

from kvcm_platform.core.errors import invalid
from kvcm_platform.index import codec
from kvcm_platform.index.embedded.byte_store import ByteStore, Mutation

from .interface import START, IndexUsage, Outcome, Page
from .store import KEY_BYTES, MOST_WRITES, Write, full, resolve

RECORDS, SLOTS, FIGURES = b"r", b"s", b"f"
_FIGURES = struct.Struct(">QQ")
_CURSOR = re.compile(rb"\d{1,20}")
_SLOT_BYTES = 8


class EmbeddedStore:
    """No call gives the event loop up between reading and writing, so none needs a lock."""

    def __init__(self, store: ByteStore, max_records: int, choice: random.Random | None = None) -> None:
        self._store = store
        self._max_records = max_records
        self._random = choice or random.Random()  # noqa: S311
        raw = store.get(FIGURES, [b""])[0]
        self._count, self._bytes = (0, 0) if raw is None else _FIGURES.unpack(raw)

    async def read(self, keys: Sequence[int]) -> list[bytes | None]:
        return [None if raw is None else raw[_SLOT_BYTES:] for raw in self._raw(keys)]

    def _raw(self, keys: Sequence[int]) -> list[bytes | None]:
        return self._store.get(RECORDS, [_packed(key) for key in keys])

    async def write(self, writes: Sequence[Write]) -> list[Outcome | None]:
        keys = list(dict.fromkeys(write.key for write in writes))
        raw = dict(zip(keys, self._raw(keys), strict=True))
        held = {key: None if one is None else one[_SLOT_BYTES:] for key, one in raw.items()}
        outcomes, after = resolve(writes, held)
        growth = sum((after[key] is not None) - (held[key] is not None) for key in after)
        if growth > 0 and self._count + growth > self._max_records:
            raise full(self._max_records)
        mutations = _Mutations(self._store, self._count)
        size = self._bytes
        for key, record in after.items():
            before = held[key]
            size += _size(record) - _size(before)
            if record is not None:
                mutations.put(key, record)
            elif before is not None:
                mutations.delete(key)
        if mutations.changes:
            figures = _FIGURES.pack(mutations.count, size)
            self._store.write([*mutations.changes.values(), (FIGURES, b"", figures)])
            self._count, self._bytes = mutations.count, size
        return outcomes

    async def scan(self, cursor: bytes, limit: int) -> Page:
        if cursor != START and not _CURSOR.fullmatch(cursor):
            raise invalid("cursor", "is not one of this index")
        end = self._count if cursor == START else min(int(cursor), self._count)
        begin = max(0, end - min(limit, MOST_WRITES))
        packed = self._keys_of(range(begin, end))
        items: list[tuple[int, bytes]] = []
        for key, raw in zip(packed, self._store.get(RECORDS, packed), strict=True):
            if raw is not None:
                items.append((int.from_bytes(key, signed=True), raw[_SLOT_BYTES:]))
        return Page(items, b"%d" % begin if begin else START)

    def _keys_of(self, slots: Sequence[int]) -> list[bytes]:
        found = self._store.get(SLOTS, [slot.to_bytes(_SLOT_BYTES) for slot in slots])
        return [key for key in found if key is not None]

    async def random_sample(self, n: int) -> list[int]:
        slots = self._random.sample(range(self._count), min(n, self._count))
        keys: list[int] = []
        for at in range(0, len(slots), MOST_WRITES):
            keys += codec.unpack_keys(b"".join(self._keys_of(slots[at : at + MOST_WRITES])))
        return keys

    async def usage(self) -> IndexUsage:
        return IndexUsage(self._count, self._bytes)

    async def close(self) -> None:
        await self._store.close()


class _Mutations:
    """Collects what a batch changes; its own changes are seen by what follows in it."""

    def __init__(self, store: ByteStore, count: int) -> None:
        self._store = store
        self.count = count
        self.changes: dict[tuple[bytes, bytes], Mutation] = {}

    def put(self, key: int, record: bytes) -> None:
        before = self._read(RECORDS, _packed(key))
        slot = self.count.to_bytes(_SLOT_BYTES) if before is None else before[:_SLOT_BYTES]
        self._set(RECORDS, _packed(key), slot + record)
        if before is None:
            self._set(SLOTS, slot, _packed(key))
            self.count += 1

    def delete(self, key: int) -> None:
        """The key of the last slot takes the place of the one that goes."""
        before = self._read(RECORDS, _packed(key))
        if before is None:
            return
        slot, last = before[:_SLOT_BYTES], (self.count - 1).to_bytes(_SLOT_BYTES)
        if slot != last:
            mover = self._read(SLOTS, last)
            moved = None if mover is None else self._read(RECORDS, mover)
            if mover is None or moved is None:
                raise ValueError("the index's slots are not what its figures say")
            self._set(SLOTS, slot, mover)
            self._set(RECORDS, mover, slot + moved[_SLOT_BYTES:])
        self._set(SLOTS, last, None)
        self._set(RECORDS, _packed(key), None)
        self.count -= 1

    def _read(self, name: bytes, key: bytes) -> bytes | None:
        change = self.changes.get((name, key))
        if change is not None:
            return change[2]
        return self._store.get(name, [key])[0]

    def _set(self, name: bytes, key: bytes, value: bytes | None) -> None:
        self.changes[name, key] = (name, key, value)


def _packed(key: int) -> bytes:
    return key.to_bytes(KEY_BYTES, signed=True)


def _size(record: bytes | None) -> int:
    return 0 if record is None else KEY_BYTES + len(record)
