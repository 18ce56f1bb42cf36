"""The two phases of a write (DESIGN 4.4): places for the missing blocks, then which of them were written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from . import masks, placement, places, uris
from .errors import Code, DomainError, invalid
from .masks import Mask
from .placement import Serving
from .ports import Record, Shape, WriteLimits, WritePlan
from .registry import GroupEntry, InstanceEntry, StorageEntry
from .use_cases import Blocks, UseCases, plain, random_id

INSERT_SECONDS = 5
MAX_WRITE_TIMEOUT = 3600
EMPTY_WRITE_TIMEOUT = 10
MAX_REPLICAS = 64
MAX_INSTANCES_REMEMBERED = 10_000
MAX_LOCATIONS = 1 << 18
"""Location specs of one answer: keys times specs of a block."""
SESSION_GONE = "write_session_id has been deleted"
_SESSION_ID = re.compile(r"[a-z0-9]{32}")


@dataclass(frozen=True, slots=True)
class StartedWrite:
    """Answer of start_write: one location (wire bytes) per block that is not in the mask, in order."""

    session_id: str
    mask: int | list[bool]
    locations: list[bytes]


@dataclass(slots=True)
class Missing:
    """What a Start has to write: each block once, with the shape of its new location."""

    keys: list[int] = field(default_factory=list)
    shapes: dict[Shape, int] = field(default_factory=dict)
    shape_of: list[int] = field(default_factory=list)
    replaced: dict[int, bytes] = field(default_factory=dict)
    holders: Counter[int] = field(default_factory=Counter)
    """Storage number -> how many of these blocks have a location there already."""
    _last: tuple[Shape | None, int] = (None, 0)

    def add(self, key: int, shape: Shape) -> None:
        last, number = self._last
        if shape is not last:
            number = self.shapes.setdefault(shape, len(self.shapes))
            self._last = shape, number
        self.keys.append(key)
        self.shape_of.append(number)

    def add_to(self, record: bytes, storages: Sequence[int], key: int, shape: Shape) -> None:
        """The same for a block that has locations already."""
        self.replaced[len(self.keys)] = record
        self.holders.update(set(storages))
        self.add(key, shape)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a Start asks for, in the order of the call."""

    keys: Sequence[int]
    shapes: Sequence[Shape] = ()
    """The shape of each block; empty = all specs of the instance."""
    names: Sequence[str] = ()
    """Name of each block's object, which then is one of its own; empty = the key in hex."""


class Writes(UseCases):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._shapes_of: dict[int, list[Shape]] = {}

    async def start_write(
        self,
        instance_id: str,
        blocks: Blocks,
        group_names: Sequence[str],
        timeout_seconds: int,
        min_replica_count: int = 0,
    ) -> StartedWrite:
        """First phase: places the missing blocks and opens a write session.

        A block is missing while one of the specs asked for exists less than `min_replica_count`
        times (0 = once); each Start adds at most one location a block, on a storage that has few of
        them.
        """
        instance = await self.block_instance(instance_id)
        keys = plain(await self._asked(instance, blocks))
        wanted = Wanted(keys, self._wanted_shapes(instance, group_names, len(blocks.keys)))
        try:
            started = await self._start(instance, wanted, timeout_seconds, min_replica_count)
        except DomainError as error:
            if self._tap.is_open and error.code is Code.CAPACITY:
                self._tap.start(instance, "", keys, None)
            raise
        if self._tap.is_open:
            self._tap.start(instance, started.session_id, keys, started.mask, len(blocks.tokens))
        return started

    async def _start(
        self, instance: InstanceEntry, wanted: Wanted, timeout_seconds: int, min_replica_count: int
    ) -> StartedWrite:
        group, keys, shapes = self._group(instance), wanted.keys, wanted.shapes
        self._check_size(instance, keys, min_replica_count)
        serving = self._served(group)

        position: dict[int, int] = {}
        for at, key in enumerate(keys):
            position.setdefault(key, at)
        records = await self._index.records(instance, list(position))
        missing = self._missing(instance, position, records, shapes, serving, min_replica_count)
        plan = self._plan(instance, group, missing, position, timeout_seconds, records)
        if wanted.names:
            plan = replace(plan, object_names=[wanted.names[position[key]] for key in missing.keys])
        plan, locations, lost = await self._write(plan, missing, serving)
        if len(locations) == len(keys):
            return StartedWrite(plan.session_id, 0, locations)
        written = {position[key] for index, key in enumerate(missing.keys) if index not in lost}
        return StartedWrite(
            plan.session_id, masks.compact([at not in written for at in range(len(keys))]), locations
        )

    def _missing(
        self,
        instance: InstanceEntry,
        position: Mapping[int, int],
        records: Sequence[Record],
        shapes: Sequence[Shape],
        serving: Serving,
        min_replica_count: int,
    ) -> Missing:
        """`shapes` as in Wanted; `position` says where in the call a key stood first."""
        whole, replicas = self._shapes(instance)[0], max(1, min_replica_count)
        if not shapes and not any(records):
            # The usual Start: its caller has just matched, and asks for what was not there.
            return Missing(keys=list(position), shapes={whole: 0})
        missing = Missing()
        for (key, at), record in zip(position.items(), records, strict=True):
            shape = shapes[at] if shapes else whole
            if record is None:
                missing.add(key, shape)
                continue
            lacking = self._rules.lacking(record, instance, shape, serving, replicas)
            if lacking is not None:
                missing.add_to(record, self._rules.storages(record), key, lacking)
        return missing

    async def _write(
        self, plan: WritePlan, missing: Missing, serving: Serving
    ) -> tuple[WritePlan, list[bytes], set[int]]:
        """Opens the session on the first candidate that takes the blocks; the plan as it was carried out."""
        left = self._candidates(plan, missing.holders) if plan.keys else []
        failed: list[str] = []
        while True:
            plan, storage, locations, lost = await self._open(plan, left, serving)
            reason = "" if storage is None else await self._prepare(storage, locations)
            if storage is None or not reason:
                return plan, locations, lost
            # The session is on record, so whatever was made of its files is deleted, also what comes late.
            await self._finish(plan.instance, plan.session_id, 0)
            failed.append(f"{storage.name}: {reason}")
            left = [other for other in left if other.name != storage.name]
            if not left:
                self._facts.add(plan.instance.instance_id, write_refused=1)
                reasons = "; ".join(failed)
                raise DomainError(
                    Code.IO_ERROR, f"group {plan.group.name} has no storage that takes files ({reasons})"
                )
            plan = self._again(plan)

    async def _prepare(self, storage: StorageEntry, locations: Sequence[bytes]) -> str:
        """Has the files made that the caller is to write; the reason why they cannot be, or nothing."""
        if self._files is None or not locations:
            return ""
        try:
            await self._files.prepare(storage, locations)
        except OSError as error:
            return error.strerror or str(error)
        return ""

    def _candidates(self, plan: WritePlan, holders: Mapping[int, int]) -> list[StorageEntry]:
        try:
            candidates = placement.write_candidates(self._registry.current, plan.group)
        except DomainError:
            self._facts.add(plan.instance.instance_id, write_refused=1)
            raise
        return placement.spread(candidates, holders) if holders else candidates

    async def _open(
        self, plan: WritePlan, candidates: Sequence[StorageEntry], serving: Serving
    ) -> tuple[WritePlan, StorageEntry | None, list[bytes], set[int]]:
        """One session with places on one of the candidates; with none of either where nothing is written."""
        group = plan.group
        limits = WriteLimits(self._limits.max_sessions, group.meta_indexer.max_key_count)
        is_counted = group.limits.write_session_ratio > 0
        if is_counted:
            await self._admission.session(group, plan.session_id, plan.deadline_ms, limits.max_sessions)
        try:
            storage: StorageEntry | None = None
            if candidates:
                plan, storage = await self._reserve(plan, candidates)
                if plan.object_names:
                    storage = uris.one_object_a_file(storage)
            return (plan, storage, *await self._insert(plan, storage, serving, limits))
        except Exception:
            if is_counted:
                await self._admission.session_ended(group, plan.session_id)
            raise

    async def _reserve(
        self, plan: WritePlan, candidates: Sequence[StorageEntry]
    ) -> tuple[WritePlan, StorageEntry]:
        try:
            return await places.reserve(self._index, plan, candidates)
        except DomainError as error:
            self._count_refusal(plan, error)
            raise

    async def _insert(
        self, plan: WritePlan, storage: StorageEntry | None, serving: Serving, limits: WriteLimits
    ) -> tuple[list[bytes], set[int]]:
        try:
            return await self._index.write(plan, storage, serving, limits)
        except DomainError as error:
            if error.code is Code.CAPACITY:
                self._count_refusal(plan, error)
            raise

    def _count_refusal(self, plan: WritePlan, error: DomainError) -> None:
        is_quota = error.code is Code.CAPACITY
        self._facts.add(
            plan.instance.instance_id, write_refused=1, **({"quota_refused": 1} if is_quota else {})
        )

    def _check_size(self, instance: InstanceEntry, keys: Sequence[int], min_replica_count: int) -> None:
        if len(keys) * len(instance.location_spec_infos) > MAX_LOCATIONS:
            raise DomainError(
                Code.TOO_LARGE,
                f"block_keys: {len(keys)} blocks of {len(instance.location_spec_infos)} specs are more than"
                f" {MAX_LOCATIONS} locations to write",
                field="block_keys",
            )
        if not 0 <= min_replica_count <= MAX_REPLICAS:
            raise invalid("min_replica_count", f"{min_replica_count} is not within 0..{MAX_REPLICAS}")

    def _shapes(self, instance: InstanceEntry) -> list[Shape]:
        """The shapes of whole blocks, by the number of their spec set."""
        known = self._shapes_of.get(instance.number)
        if known is None:
            if len(self._shapes_of) > MAX_INSTANCES_REMEMBERED:
                self._shapes_of.clear()
            known = [Shape(number, specs) for number, specs in instance.spec_sets().items()]
            self._shapes_of[instance.number] = known
        return known

    def _wanted_shapes(self, instance: InstanceEntry, names: Sequence[str], key_count: int) -> list[Shape]:
        """The shape that each key was asked for; empty when no groups were named: all specs."""
        if not names:
            return []
        if len(names) != key_count:
            raise invalid(
                "location_spec_group_names", f"{len(names)} names were given for {key_count} block_keys"
            )
        groups = [group.name for group in instance.location_spec_groups]
        shapes = dict(zip(groups, self._shapes(instance)[1:], strict=True))
        unknown = next((name for name in names if name not in shapes), None)
        if unknown is not None:
            raise invalid("location_spec_group_names", f"the instance has no group {unknown!r}")
        return [shapes[name] for name in names]

    def _plan(
        self,
        instance: InstanceEntry,
        group: GroupEntry,
        missing: Missing,
        position: dict[int, int],
        timeout_seconds: int,
        existing: Sequence[Record],
    ) -> WritePlan:
        if timeout_seconds <= 0:
            timeout_seconds = self._limits.default_write_timeout if missing.keys else EMPTY_WRITE_TIMEOUT
        timeout_ms = min(timeout_seconds, MAX_WRITE_TIMEOUT) * 1000
        now = self._index.now_ms()
        location_id = random_id(8)
        shapes = tuple(missing.shapes) or (self._shapes(instance)[0],)
        return WritePlan(
            instance=instance,
            group=group,
            session_id=random_id(24) + location_id,
            location_id=location_id,
            keys=missing.keys,
            depths=[position[key] for key in missing.keys],
            shapes=shapes,
            shape_of=missing.shape_of if len(shapes) > 1 else (),
            insert_by_ms=now + min(INSERT_SECONDS * 1000, timeout_ms),
            deadline_ms=now + timeout_ms,
            tick_ms=now,
            existing=existing,
            replaced=missing.replaced,
        )

    def _again(self, plan: WritePlan) -> WritePlan:
        """The plan for another try, in a session of its own: no place is named twice."""
        now, location_id = self._index.now_ms(), random_id(8)
        return replace(
            plan,
            session_id=random_id(24) + location_id,
            location_id=location_id,
            insert_by_ms=now + plan.insert_by_ms - plan.tick_ms,
            deadline_ms=now + plan.deadline_ms - plan.tick_ms,
            tick_ms=now,
            places=None,
        )

    async def finish_write(self, instance_id: str, session_id: str, success: Mask) -> None:
        """Second phase: successes become SERVING, failures are writable again at once."""
        instance = await self.block_instance(instance_id)
        await self._finish(instance, session_id, success)
        if self._tap.is_open:
            self._tap.finish(instance, session_id, success)

    def _check_session_id(self, session_id: str) -> None:
        if not _SESSION_ID.fullmatch(session_id):
            raise DomainError(Code.INTERNAL, SESSION_GONE)

    async def _finish(self, instance: InstanceEntry, session_id: str, success: Mask) -> None:
        self._check_session_id(session_id)
        masks.check(success, "success_blocks")
        written, failed = await self._index.finish(instance, session_id, success)
        group = self._group(instance)
        if group.limits.write_session_ratio:
            await self._admission.session_ended(group, session_id)
        self._facts.add(instance.instance_id, written_blocks=written, failed_blocks=failed)
