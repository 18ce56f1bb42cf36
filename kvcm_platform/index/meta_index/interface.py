"""The reference's index of block records, usable by itself: byte records by signed 64-bit block key.

`MetaIndex` is implemented by `indexer.LockedMetaIndex` over one of three stores (Redis, this
process's memory, RocksDB) and decorated by `cache.CachedMetaIndex`; `factory.open_meta_index` puts
them together from a group's `MetaIndexerSettings`. One behaviour suite runs over all of them
(tests/contract/test_meta_index.py).

Keys of one call may repeat: they are dealt with in order, each seeing what the one before left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

START = b""
"""Cursor of a scan's beginning, and what the last page gives as the next one."""


class Outcome(StrEnum):
    """What became of one key of a call."""

    CREATED = "created"
    REPLACED = "replaced"
    DELETED = "deleted"
    MISSING = "missing"
    """There was no record to update or to delete; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Put:
    """Writes the record whether or not the key has one."""

    record: bytes


@dataclass(frozen=True, slots=True)
class Update:
    """Writes the record if the key has one."""

    record: bytes


@dataclass(frozen=True, slots=True)
class Delete:
    """Drops the record, if there is one."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Leaves the key as it is."""


Change = Put | Update | Delete | Skip
Modifier = Callable[[int, bytes | None], Change]
"""Gets a key and its record (None: it has none) and says what to do.

It may be asked again about the same key when another process was faster, so it must not have
effects of its own. What it raises ends the call; batches before stay done.
"""


@dataclass(slots=True)
class ModifyReport:
    """How many keys of a read_modify_write went which way; duplicates count each time."""

    put: int = 0
    updated: int = 0
    deleted: int = 0
    skipped: int = 0
    missing: int = 0
    """Updates and deletions of keys that have no record."""


@dataclass(frozen=True, slots=True)
class Page:
    """One step of a scan. It may hold more or fewer items than asked for, even none, before the end."""

    items: list[tuple[int, bytes]]
    cursor: bytes
    """Where to go on; START when the scan is over."""


@dataclass(frozen=True, slots=True)
class IndexUsage:
    """`bytes` are those of keys (8 each) and records, without what a store needs around them."""

    records: int
    bytes: int


class MetaIndex(Protocol):
    """Use from one event loop.

    All calls raise redis.RedisError when a Redis behind the index cannot be reached. Writing calls
    work batch by batch (batches are aligned to lock shards) and raise DomainError(CAPACITY) when a
    batch would pass `max_key_count`: that batch changes nothing, those before it stay.
    """

    async def get(self, keys: Sequence[int]) -> list[bytes | None]:
        """The records, in order; None where there is none."""
        ...

    async def put(self, records: Sequence[tuple[int, bytes]]) -> list[Outcome]:
        """Creates or replaces: CREATED or REPLACED for each."""
        ...

    async def update(self, records: Sequence[tuple[int, bytes]]) -> list[Outcome]:
        """Replaces what exists: REPLACED or MISSING for each."""
        ...

    async def delete(self, keys: Sequence[int]) -> list[Outcome]:
        """DELETED or MISSING for each."""
        ...

    async def read_modify_write(self, keys: Sequence[int], modifier: Modifier) -> ModifyReport:
        """Lets `modifier` decide on each record; no change of another writer is lost in between.

        Raises DomainError(CONFLICT) when a key kept changing during all attempts.
        """
        ...

    async def scan(self, cursor: bytes, limit: int) -> Page:
        """About `limit` records from `cursor` on, which is START or came from the page before.

        A key that is there during the whole scan is seen at least once, perhaps twice when others
        come and go meanwhile. Raises DomainError(INVALID_ARGUMENT) for a cursor of another kind.
        """
        ...

    async def random_sample(self, n: int) -> list[int]:
        """Up to `n` different keys, every key as likely as any other."""
        ...

    async def count(self) -> int: ...

    async def usage(self) -> IndexUsage: ...

    async def close(self) -> None:
        """Gives files back; a snapshot is written first."""
        ...
