"""The key-value form of the data plane: string keys instead of block keys, over the same index.

A key becomes a digest of 128 bits, keyed by the instance's number. Its first half is the block key,
all of it the name of the value's object, so that what is read can be told from another key's value
with an equal half: such a key is a miss and is never stored. Every value is an object of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from . import masks
from .errors import Code, DomainError, invalid
from .masks import Mask
from .ports import Shape
from .queries import Queries
from .registry import VALUE_SPEC, InstanceEntry, LocationSpecInfo
from .removal import Removal
from .types import QueryType
from .validation.instances import MAX_BLOCK_BYTES
from .writes import Wanted, Writes

MAX_KEY_BYTES = 1024
MANY_KEYS = 4096
"""Keys from which on hashing leaves the event loop."""
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class StartedPut:
    """Answer of put_start: which keys need no write, and one location (wire bytes) for each other."""

    session_id: str
    mask: list[bool]
    locations: list[bytes]


@dataclass(frozen=True, slots=True)
class Named:
    """Keys as the index knows them: block keys, and names of objects."""

    keys: list[int]
    names: list[str]


def value_bytes_of(user_data: str) -> int | None:
    """The size of an instance's values that its registration gives; None where it gives none.

    `user_data` is the caller's own; only a JSON object with the member `value_bytes` says something here.
    Raises INVALID_ARGUMENT for a size that cannot be.
    """
    try:
        data = json.loads(user_data)
    except (ValueError, RecursionError):
        return None
    size = data.get("value_bytes") if isinstance(data, dict) else None
    if size is None:
        return None
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MAX_BLOCK_BYTES:
        raise invalid("user_data.value_bytes", f"must be a whole number within 1..{MAX_BLOCK_BYTES}")
    return size


def named(instance_number: int, keys: Sequence[str]) -> Named:
    """Raises INVALID_ARGUMENT for a key that is empty or too long."""
    salt = instance_number.to_bytes(8)
    blake2b = hashlib.blake2b
    block_keys: list[int] = []
    names: list[str] = []
    for key in keys:
        raw = key.encode()
        if not 1 <= len(raw) <= MAX_KEY_BYTES:
            raise invalid("keys", f"a key of {len(raw)} bytes is not within 1..{MAX_KEY_BYTES}")
        digest = blake2b(raw, digest_size=_DIGEST_BYTES, key=salt).digest()
        block_keys.append(int.from_bytes(digest[:8], signed=True))
        names.append(digest.hex())
    return Named(block_keys, names)


class Values(Queries, Writes, Removal):
    async def value_instance(self, instance_id: str) -> InstanceEntry:
        """Raises INSTANCE_NOT_EXIST, and INVALID_ARGUMENT for an instance whose blocks have numbers."""
        instance = await self.instance(instance_id)
        if not instance.has_values:
            raise invalid(
                "instance_id", "the instance holds blocks; it was not registered for keys and values"
            )
        return instance

    async def get_values(
        self, instance_id: str, keys: Sequence[str], query: int = QueryType.BATCH_GET
    ) -> tuple[list[bytes], list[bool]]:
        """One location for each key (wire bytes), a placeholder for a missing one; and which are there."""
        instance = await self.value_instance(instance_id)
        if query != QueryType.BATCH_GET:
            raise invalid("query_type", "only QT_BATCH_GET finds values")
        wanted = await self._named(instance, keys, is_throttled=True)
        records, wires = await self._wires(instance, wanted.keys)
        hits = [
            wire is not None and self._rules.is_of_object(wire, name)
            for wire, name in zip(wires, wanted.names, strict=True)
        ]
        self._touch_hits(instance, records, hits)
        self._note_query(instance, len(keys), sum(hits))
        missing = self._rules.placeholder(instance)
        found = [wire if hit and wire is not None else missing for wire, hit in zip(wires, hits, strict=True)]
        return found, hits

    async def put_start(
        self, instance_id: str, keys: Sequence[str], sizes: Sequence[int], timeout_seconds: int
    ) -> StartedPut:
        """First phase of a put. `sizes` are the values' bytes, empty = the instance's `value_bytes` each.

        A key that comes twice is written once; the mask says of the second that it needs no write.
        """
        instance = await self.value_instance(instance_id)
        shapes = self._value_shapes(instance, sizes, len(keys))
        wanted = await self._named(instance, keys, is_throttled=True)
        started = await self._start(
            instance, Wanted(wanted.keys, shapes, wanted.names), timeout_seconds, min_replica_count=0
        )
        return StartedPut(started.session_id, masks.flags(started.mask, len(keys)), started.locations)

    async def put_finish(self, instance_id: str, session_id: str, success: Mask) -> None:
        """Second phase; `success` is over the locations of put_start."""
        await self._finish(await self.value_instance(instance_id), session_id, success)

    async def put_finish_listed(self, instance_id: str, session_id: str, uris: Sequence[str]) -> None:
        """The same by the URIs of the values that were written; none listed = all were.

        Raises INVALID_ARGUMENT for a URI that put_start did not give; the session then stays open.
        """
        instance = await self.value_instance(instance_id)
        self._check_session_id(session_id)
        names = await self._index.session_names(instance, session_id)
        success: Mask = len(names)
        if uris:
            object_of = _object_pattern(instance, session_id)
            listed = set()
            for uri in uris:
                found = object_of.search(uri)
                if found is None or found[1] not in names:
                    raise invalid("locations", f"{uri[:200]!r} is not of this write session")
                listed.add(found[1])
            success = [name in listed for name in names]
        await self._finish(instance, session_id, success)

    async def remove_values(self, instance_id: str, keys: Sequence[str]) -> None:
        """Removes values, also those being written; unknown keys are fine."""
        instance = await self.value_instance(instance_id)
        wanted = await self._named(instance, keys, is_throttled=False)
        records = await self._index.records(instance, wanted.keys)
        own = [
            key
            for key, name, record in zip(wanted.keys, wanted.names, records, strict=True)
            if record is not None and self._rules.is_of_object(record, name)
        ]
        await self._remove(instance, own)

    async def trim_values(self, instance_id: str, strategy: int, begin: int, end: int) -> None:
        """As trim_cache."""
        await self._trim(await self.value_instance(instance_id), strategy, begin, end)

    async def _named(self, instance: InstanceEntry, keys: Sequence[str], *, is_throttled: bool) -> Named:
        if not len(keys):
            raise invalid("keys", "none are given")
        if len(keys) > self._limits.max_keys:
            text = f"keys: {len(keys)} are more than {self._limits.max_keys}"
            raise DomainError(Code.TOO_LARGE, text, field="keys")
        if is_throttled:
            await self._admit(instance, len(keys))
        if len(keys) >= MANY_KEYS:
            return await asyncio.to_thread(named, instance.number, keys)
        return named(instance.number, keys)

    def _value_shapes(self, instance: InstanceEntry, sizes: Sequence[int], count: int) -> list[Shape]:
        """The shape of each value; empty = all have the instance's."""
        if not sizes:
            return []
        if len(sizes) != count:
            raise invalid("value_sizes", f"{len(sizes)} sizes were given for {count} keys")
        most = instance.location_spec_infos[0].size
        shapes: dict[int, Shape] = {}
        for size in sizes:
            if not 1 <= size <= most:
                raise invalid("value_sizes", f"{size} is not within 1..{most}, the instance's value_bytes")
            if size not in shapes:
                shapes[size] = Shape(0, (LocationSpecInfo(VALUE_SPEC, size),))
        return [shapes[size] for size in sizes]


def _object_pattern(instance: InstanceEntry, session_id: str) -> re.Pattern[str]:
    """What the URIs of a session's values have in them; group 1 is the object's name."""
    path = re.escape(f"{instance.instance_id}/{VALUE_SPEC}/")
    location_id = re.escape(session_id[-8:])
    return re.compile(rf"[/=]{path}([0-9a-f]{{{2 * _DIGEST_BYTES}}})\.{location_id}(?=[?&]|$)")
