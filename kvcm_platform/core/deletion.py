"""Finishes deletions: from the list of pending ones to freed space (DESIGN 4.1, 4.4).

Crash order: the DELETING mark is durable before an object goes, the object goes before its
metadata. Every step may be repeated.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .uris import DataUri

RETRY_MS = 5000
RETRY_JITTER_MS = 5000
UNKNOWN_STORAGE = "the storage is not configured"


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


class PendingList(Protocol):
    """The pending deletions of one shard (index.pending.RedisPending)."""

    async def due(self, limit: int) -> list[PendingDeletion]: ...

    async def durable(self) -> None:
        """Returns when everything written so far would survive a crash of the server."""
        ...

    async def done(self, handles: Sequence[bytes]) -> None: ...

    async def postpone(self, handles: Sequence[bytes], delay_ms: int) -> None: ...

    async def orphan(self, deletions: Sequence[PendingDeletion]) -> None:
        """Puts them on the orphan list of their storage: they are over, and their objects stay."""
        ...


class Deleter(Protocol):
    """Frees objects of one storage (kvcm_platform.duties wires it to storage.backend)."""

    async def delete(self, objects: Sequence[PendingObject]) -> list[str]: ...

    async def settled(self, objects: Sequence[PendingObject]) -> None: ...


@dataclass(slots=True)
class DeletionReport:
    """`deleted_on` = deletions by number of their storage, `refused_on` = why there was one that failed."""

    deleted: int = 0
    orphaned: int = 0
    postponed: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    deleted_on: dict[int, int] = field(default_factory=dict)
    refused_on: dict[int, str] = field(default_factory=dict)


async def delete_due(
    pending: PendingList, deleter_of: Callable[[int], Deleter | str], limit: int, report: DeletionReport
) -> int:
    """Deals with up to `limit` due deletions of a shard; returns how many it took from the list.

    `deleter_of` gives a storage's deleter, or the reason why it cannot be used now: its list is
    kept and tried again. A storage that is not configured any more leaves orphans.
    """
    taken = await pending.due(limit)
    if not taken:
        return 0
    await pending.durable()
    by_storage: dict[int, list[PendingDeletion]] = defaultdict(list)
    for deletion in taken:
        by_storage[deletion.storage_number].append(deletion)
    await asyncio.gather(
        *(
            _delete_on(pending, deleter_of(number), deletions, report)
            for number, deletions in by_storage.items()
        )
    )
    return len(taken)


async def _delete_on(
    pending: PendingList, deleter: Deleter | str, deletions: list[PendingDeletion], report: DeletionReport
) -> None:
    orphans: list[PendingDeletion] = []
    rest: list[PendingDeletion] = []
    settled: list[PendingDeletion] = []
    for deletion in deletions:
        if deletion.is_orphan:
            orphans.append(deletion)
        elif deleter != UNKNOWN_STORAGE:
            rest.append(deletion)
        else:
            # What was freed once is no orphan: only a late writer may have left something.
            (settled if deletion.is_second_pass else orphans).append(deletion)
    if settled:
        await pending.done([d.handle for d in settled])
    if orphans:
        await pending.orphan(orphans)
        report.orphaned += len(orphans)
    if not rest:
        return
    if isinstance(deleter, str):
        reasons = [deleter] * len(rest)
    else:
        reasons = await _delete_objects(deleter, rest)
    gone = [d for d, reason in zip(rest, reasons, strict=True) if not reason]
    kept = [d for d, reason in zip(rest, reasons, strict=True) if reason]
    if gone:
        await pending.done([d.handle for d in gone])
        report.deleted += len(gone)
        number = gone[0].storage_number
        report.deleted_on[number] = report.deleted_on.get(number, 0) + len(gone)
        if not isinstance(deleter, str):
            await deleter.settled([item for d in gone for item in d.objects])
    if kept:
        delay_ms = RETRY_MS + random.randrange(RETRY_JITTER_MS)  # noqa: S311
        await pending.postpone([d.handle for d in kept], delay_ms)
        report.postponed += len(kept)
        report.refused_on[kept[0].storage_number] = next(filter(None, reasons))
        for reason in filter(None, reasons):
            report.reasons[reason] = report.reasons.get(reason, 0) + 1


async def _delete_objects(deleter: Deleter, deletions: Sequence[PendingDeletion]) -> list[str]:
    """One reason per deletion: that of its first object that could not be freed."""
    flat = [item for deletion in deletions for item in deletion.objects]
    answers = iter(await deleter.delete(flat))
    return [next(filter(None, [next(answers) for _ in deletion.objects]), "") for deletion in deletions]
