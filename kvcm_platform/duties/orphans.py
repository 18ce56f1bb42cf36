"""Looks for what nobody refers to on a storage, and deletes it if asked to.

Safe beside everything else that goes on. What the index refers to is read first; an object is an
orphan when nothing did then, and it was last written longer before that than any write may take:
nothing can come to refer to it any more. Where a storage keeps no times, the object must have been
there before the index was read: whatever wrote it was on record by then, or was over. Only what is
named like ours is looked at, and nothing is deleted on a storage that carries another owner's name.

Memory is bounded: of the names that are referred to eight bytes each are kept (orphan_names). With
more than fit, the storage is gone through once for each part of them.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from kvcm_platform.core.deletion import PendingDeletion
from kvcm_platform.core.types import URI_SCHEME
from kvcm_platform.core.uris import FILE_TYPES, DataUri, file_root, object_name, parse_uri
from kvcm_platform.duties.deleters import BackendDeleter, Deleters
from kvcm_platform.duties.orphan_names import MAX_NAMES, Names
from kvcm_platform.duties.orphan_order import OrphanFigures, OrphanOrder, Sample
from kvcm_platform.duties.session import IndexSession
from kvcm_platform.index import keyspace, leaving
from kvcm_platform.index.references import LOCATION_ID, OrphanList, ids_being_written, noted_files, uris_of
from kvcm_platform.index.shards import shards_of
from kvcm_platform.storage.backend import DataStorageBackend, FreedObject, StoredObject
from kvcm_platform.storage.registry import KINDS

BATCH = 256
"""Objects that are judged, and at most deleted, in one go."""


class CannotTell(Exception):
    """Why it cannot be said now what is an orphan: nothing is deleted on a guess."""


class Stopped(Exception):
    """The search was told to stop."""


def _installation(owner: str) -> str:
    return owner.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class _Age:
    """What counts as old: written before a unix time, or seen earlier where it has no time."""

    before: float
    earlier: Names | None

    def are_old(self, found: Sequence[StoredObject]) -> list[bool]:
        old = [one.written_at is not None and one.written_at < self.before for one in found]
        if self.earlier is None:
            return old
        known = self.earlier.known([one.name for one in found])
        return [
            is_old or (one.written_at is None and is_known is True)
            for one, is_old, is_known in zip(found, old, known, strict=True)
        ]


class OrphanSearch:
    """One search. `should_stop` is asked often, from the event loop: it must not block."""

    def __init__(
        self,
        session: IndexSession,
        order: OrphanOrder,
        should_stop: Callable[[], bool] = lambda: False,
        figures: OrphanFigures | None = None,
        *,
        at_most: int = MAX_NAMES,
    ) -> None:
        self._session = session
        self._index = session.index
        self._order = order
        self._should_stop = should_stop
        self._at_most = at_most
        self._backends = Deleters(session)
        self._generations: dict[str, int] = {}
        self._writing: set[str] = set()
        self._away: frozenset[str] = frozenset()
        self.figures = figures or OrphanFigures()

    async def run(self) -> OrphanFigures:
        """Raises CannotTell, Stopped, Unreadable, OSError, redis.RedisError; what was done is done then."""
        try:
            await self._run()
        finally:
            await self._backends.close()
        self.figures.phase = "done"
        return self.figures

    async def _run(self) -> None:
        storage, figures = self._order.storage, self.figures
        backend = self._backend(storage.number)
        self._check_index()
        self._away = await self._ids_away()
        await self._require_owner(backend)
        for number in sorted(storage.numbers):
            await self._list(number)
        parts = [(0, 1)]
        while parts:
            figures.pass_number += 1
            part = parts.pop()
            earlier = await self._seen_before(backend, part)
            names = Names(*part, at_most=self._at_most)
            started_at = time.time()
            await self._renew()
            more = await self._collect(names)
            figures.passes += len(more)
            parts += more
            await self._look(backend, names, _Age(started_at - self._order.min_age_seconds, earlier))
        tidy = KINDS[storage.type].tidy
        if tidy is not None and not self._order.is_dry:
            before = time.time() - self._order.min_age_seconds
            figures.folders = await asyncio.to_thread(tidy, storage, before)

    # What may be asked ---------------------------------------------------------------------------

    def _backend(self, number: int) -> DataStorageBackend:
        found = self._backends.backend(number)
        if found is None:
            raise CannotTell(f"nothing can be looked for on storages of type {self._order.storage.type}")
        if isinstance(found, str):
            raise CannotTell(found)
        return found

    def _check_index(self) -> None:
        """All of the index must be there, and be trusted."""
        if self._session.cut_off:
            numbers = ", ".join(map(str, sorted(self._session.cut_off)))
            raise CannotTell(f"the index of group {numbers} does not answer: its blocks would look forgotten")
        shards = [shard.base for entry in self._session.instances for shard in shards_of(entry)]
        for key in (keyspace.GENERATION, *shards):
            life = self._index.connection.life_of(key)
            if life.doubt or life.is_undecided:
                raise CannotTell("the index is being checked after a rollback; try again when that is over")
            self._generations[key] = self._index.connection.generation_of(key)

    async def _renew(self) -> None:
        """Takes up instances that were registered since: what they wrote meanwhile is referred to, too.

        Those that come later write later than what counts as old.
        """
        if self._session.read_again is not None:
            self._session = await self._session.read_again()
        self._require_same_index()
        self._check_index()
        self._away = await self._ids_away()

    def _require_same_index(self) -> None:
        """What was read of an earlier life says nothing of this one."""
        for key, generation in self._generations.items():
            if self._index.connection.generation_of(key) != generation:
                raise CannotTell("the index was restarted or rolled back meanwhile; begin again")

    def _go_on(self) -> None:
        if self._should_stop():
            raise Stopped
        self._require_same_index()

    async def _ids_away(self) -> frozenset[str]:
        """Instances whose index is in a metadata process: their records cannot be read from here."""
        if not self._session.away:
            return frozenset()
        gone = leaving.decode(await self._index.connection.call("HGETALL", keyspace.LEAVING))
        entries = [*self._session.registry.instances.values(), *gone]
        return frozenset(entry.instance_id for entry in entries if entry.number in self._session.away)

    async def _require_owner(self, backend: DataStorageBackend) -> None:
        """Another storage of this installation may have been here first: its blocks are in the index, too."""
        self.figures.owner = await backend.claim(self._order.owner)
        is_own = _installation(self.figures.owner) == _installation(self._order.owner)
        if not is_own and not self._order.is_dry:
            raise CannotTell(
                f"{self._order.storage.name} carries the name of another owner ({self.figures.owner}):"
                " what looks forgotten from here may be in use there"
            )

    # What is referred to -------------------------------------------------------------------------

    async def _collect(self, names: Names) -> list[tuple[int, int]]:
        """Fills the set with all names in use; returns the parts that did not fit."""
        self.figures.phase = "reading the index"
        more = []
        async with aclosing(self._referred()) as referred:
            async for name in referred:
                left_out = names.add(name)
                if left_out is not None:
                    more.append(left_out)
        names.finish()
        return more

    async def _referred(self) -> AsyncGenerator[str, None]:
        """Names of everything that must stay, sessions before records before what is being deleted."""
        index, instances = self._index, self._session.instances
        for entry in instances:
            self._writing |= await ids_being_written(index, entry)
        numbers = self._session.registry.storage_by_number()
        alike = {number for number, storage in numbers.items() if self._is_alike(storage.type)}
        elsewhere = frozenset(numbers) - alike
        for entry in instances:
            self._go_on()
            async with aclosing(uris_of(index, entry, elsewhere)) as uris:
                count = 0
                async for text in uris:
                    uri = parse_uri(text)
                    if self._is_here(uri):
                        yield object_name(uri)
                    count += 1
                    if count % BATCH == 0:
                        self._go_on()
        async with aclosing(noted_files(index, sorted(alike))) as paths:
            async for path in paths:
                yield path
        for number in sorted(alike):
            async with aclosing(OrphanList(index, number).entries()) as entries:
                async for listed in entries:
                    for item in listed.objects:
                        yield object_name(item.uri)

    def _is_alike(self, kind: object) -> bool:
        """Storages of such types may have objects in the same place, under another storage's name."""
        mine = self._order.storage.type
        return kind in FILE_TYPES if mine in FILE_TYPES else kind == mine

    def _is_here(self, uri: DataUri) -> bool:
        storage = self._order.storage
        if storage.type in FILE_TYPES:
            return uri.path.startswith(file_root(storage))
        return uri.scheme == URI_SCHEME[storage.type]

    # What is there -------------------------------------------------------------------------------

    async def _seen_before(self, backend: DataStorageBackend, part: tuple[int, int]) -> Names | None:
        """Names of what is there, where that must be known before the index is read.

        Names that do not fit are left for the next search.
        """
        if KINDS[self._order.storage.type].capabilities.keeps_write_times:
            return None
        self.figures.phase = "looking at the storage before the index"
        names = Names(*part, at_most=self._at_most)
        async for found in backend.objects():
            names.add(found.name)
            if self._should_stop():
                raise Stopped
        names.finish()
        return names

    async def _look(self, backend: DataStorageBackend, names: Names, age: _Age) -> None:
        self.figures.phase = "looking at the storage"
        batch: list[StoredObject] = []
        async for found in backend.objects():
            batch.append(found)
            if len(batch) == BATCH:
                await self._judge(batch, names, age)
                batch = []
        await self._judge(batch, names, age)

    async def _judge(self, batch: Sequence[StoredObject], names: Names, age: _Age) -> None:
        self._go_on()
        figures, orphans = self.figures, []
        known = names.known([one.name for one in batch])
        for found, is_known, is_old in zip(batch, known, age.are_old(batch), strict=True):
            if is_known is None:
                continue
            figures.looked_at += 1
            if is_known or found.name[-LOCATION_ID:] in self._writing:
                figures.referred += 1
            elif not found.is_ours:
                figures.foreign += 1
                figures.foreign_bytes += found.size_bytes
            elif self._away and (not found.instance_id or found.instance_id in self._away):
                figures.out_of_reach += 1
            elif not is_old:
                figures.young += 1
            else:
                figures.note_orphan(Sample(found.name, found.size_bytes, found.written_at))
                orphans.append(found)
        if self._order.is_dry:
            return
        by_number: dict[int, list[StoredObject]] = defaultdict(list)
        for found in orphans:
            by_number[self._number_of(found.uri)].append(found)
        for number, those in by_number.items():
            await self._delete(self._backend(number), those)

    def _number_of(self, uri: DataUri) -> int:
        """Of a pool the segment's: its memory is given back under that number."""
        storage, node = self._order.storage, uri.params.get("node_id")
        return next((one.number for one in storage.segments if one.node_id == node), storage.number)

    async def _delete(self, backend: DataStorageBackend, orphans: Sequence[StoredObject]) -> None:
        await self._require_owner(backend)
        reasons = await backend.delete([FreedObject(found.uri) for found in orphans])
        for found, reason in zip(orphans, reasons, strict=True):
            if reason:
                self.figures.note_failure(reason)
            else:
                self.figures.deleted += 1
                self.figures.deleted_bytes += found.size_bytes

    # What the index wants gone -------------------------------------------------------------------

    async def _list(self, number: int) -> None:
        """The list of blocks whose records alone were dropped."""
        self.figures.phase = "reading the list of orphans"
        orphans = OrphanList(self._index, number)
        batch: list[PendingDeletion] = []
        async with aclosing(orphans.entries()) as entries:
            async for listed in entries:
                self.figures.listed += 1
                self.figures.listed_bytes += listed.size
                batch.append(listed)
                if len(batch) == BATCH:
                    await self._delete_listed(orphans, number, batch)
                    batch = []
        await self._delete_listed(orphans, number, batch)

    async def _delete_listed(self, orphans: OrphanList, number: int, batch: list[PendingDeletion]) -> None:
        self._go_on()
        if self._order.is_dry or not batch:
            return
        backend = self._backend(number)
        await self._require_owner(backend)
        deleter = BackendDeleter(backend)
        answers = iter(await deleter.delete([item for listed in batch for item in listed.objects]))
        gone = []
        for listed in batch:
            reasons = [reason for reason in [next(answers) for _ in listed.objects] if reason]
            if reasons:
                self.figures.note_failure(reasons[0])
            else:
                gone.append(listed)
        if gone:
            self.figures.listed_deleted += await orphans.drop(gone)
            await deleter.settled([item for listed in gone for item in listed.objects])
