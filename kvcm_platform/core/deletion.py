"""Pending deletions, the lists that they are on, and who frees their objects (DESIGN 4.1, 4.4).

Crash order: the DELETING mark is durable before an object goes, the object goes before its
metadata. Every step may be repeated. `core.executor` carries them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .back_off import BackOff
from .uris import DataUri

UNKNOWN_STORAGE = "the storage is not configured"


class ObjectRefused(str):
    """Why one object cannot be freed, whatever its storage does with others."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class PendingObject:
    uri: DataUri
    slots_in_file: int
    is_second_pass: bool = False
    was_served: bool = True
    """Its write was finished: nobody writes there any more."""


@dataclass(frozen=True, slots=True)
class PendingDeletion:
    """One location to delete. `is_orphan`: only metadata was dropped, the objects are listed as orphans."""

    handle: bytes
    """Names it on its list, together with the state it was in when it was taken."""
    storage_number: int
    is_orphan: bool
    objects: tuple[PendingObject, ...]
    size: int
    entry: bytes

    @property
    def is_second_pass(self) -> bool:
        """Whether its objects were freed before."""
        return all(item.is_second_pass for item in self.objects)


@dataclass(frozen=True, slots=True)
class FreedSlots:
    """Slots of one file whose space was given back."""

    file: str
    slots_in_file: int
    slots: tuple[int, ...]
    is_second_pass: bool = False


class PendingList(Protocol):
    """The pending deletions of one shard (index.pending.RedisPending)."""

    async def due(self, limit: int) -> list[PendingDeletion]: ...

    async def soon(self, limit: int) -> tuple[list[PendingDeletion], float]:
        """Those that will be due in a moment, too, and when (time.monotonic) all of them are."""
        ...

    async def aside(self, storage_number: int, limit: int) -> list[PendingDeletion]:
        """What was set aside for a storage, oldest first."""
        ...

    async def durable(self) -> None:
        """Returns when everything written so far would survive a crash of the server."""
        ...

    async def done(self, handles: Sequence[bytes], *, are_left: bool = False) -> None:
        """They are over; with `are_left` their objects stay on a storage that was given up."""
        ...

    async def postpone(self, handles: Sequence[bytes], delay_ms: int) -> None: ...

    async def set_aside(self, handles: Sequence[bytes], storage_number: int) -> None:
        """Until somebody asks for them again: they are in nobody's way meanwhile."""
        ...

    async def orphan(self, deletions: Sequence[PendingDeletion]) -> None:
        """Puts them on the orphan list of their storage: they are over, and their objects stay."""
        ...


class Deleter(Protocol):
    """Frees objects of one storage (kvcm_platform.duties wires it to storage.backend)."""

    @property
    def leaves_objects(self) -> bool:
        """Whether it only says that objects are gone: nobody will ever delete them."""
        ...

    async def delete(self, objects: Sequence[PendingObject]) -> list[str]:
        """One reason per object, "" where it is gone; an ObjectRefused says nothing about the storage."""
        ...

    async def settled(self, objects: Sequence[PendingObject]) -> None: ...


class BackOffs(Protocol):
    """How long storages are left alone, kept outside of the process (index.back_offs)."""

    async def read(self, storage_number: int) -> BackOff: ...

    async def write(self, storage_number: int, back_off: BackOff) -> None: ...


@dataclass(slots=True)
class DeletionReport:
    """`postponed` counts what stays on its list, each time that it is put off.

    `deleted_on` = deletions by number of their storage, `refused_on` = why there was one that failed.
    """

    deleted: int = 0
    orphaned: int = 0
    postponed: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    deleted_on: dict[int, int] = field(default_factory=dict)
    refused_on: dict[int, str] = field(default_factory=dict)
