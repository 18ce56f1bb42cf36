"""Write sessions that copy served blocks to one other storage (index/lua/3_copies.lua).

Quota, places, expiry and sweeping are those of every write session. What makes it a copy is that it
knows where each block was read from, and that the flip looks whether that is still served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvcm_platform.core import uris
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.placement import Serving
from kvcm_platform.core.places import reserve
from kvcm_platform.core.ports import Shape, WriteLimits, WritePlan
from kvcm_platform.core.registry import GroupEntry, InstanceEntry, LocationSpecInfo, StorageEntry
from kvcm_platform.core.types import LocationStatus
from kvcm_platform.core.use_cases import random_id
from kvcm_platform.core.writes import INSERT_SECONDS, SESSION_GONE

from . import codec, keyspace
from .ages import HeldBlock
from .codec import StoredLocation
from .shards import by_shard, shards_of

if TYPE_CHECKING:
    from .redis_index import RedisIndex

NO_LIMIT = 1 << 50
"""Copies add no keys, and those who copy bound their own sessions."""
SHED_CHUNK = 128


@dataclass(frozen=True, slots=True)
class CopyJob:
    """Where a batch of one instance's blocks goes, and what becomes of where it was."""

    instance: InstanceEntry
    group: GroupEntry
    target: StorageEntry
    serving: Serving
    is_move: bool
    """Whether the sources go with the flip, `delay_ms` later for good."""
    delay_ms: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class OpenCopy:
    """A copy under way: `blocks` are those that got a place, `places` where the bytes of each go."""

    job: CopyJob
    session_id: str
    location_id: str
    blocks: tuple[HeldBlock, ...]
    places: tuple[list[tuple[str, str]], ...]
    """(spec name, URI) pairs of each block, in the order of its source's."""
    generation: int
    """The life of the index that says that the sources are served."""


async def open_copy(index: RedisIndex, job: CopyJob, blocks: Sequence[HeldBlock]) -> OpenCopy:
    """Opens the session for blocks of one instance, each once.

    Raises DomainError: CAPACITY where the quota has no room, NoRoom where the target has none, NOT_READY
    also while the index is in doubt: a source may be gone that it says is served.
    """
    generation = _generation(index, job.instance)
    await index.require_no_doubt(job.instance)
    plan, storage = await reserve(index, _plan(index, job, blocks), [job.target])
    if plan.object_names:
        storage = uris.one_object_a_file(storage)
    limits = WriteLimits(NO_LIMIT, NO_LIMIT)
    wires, lost = await index.write(plan, storage, job.serving, limits)
    kept = tuple(block for at, block in enumerate(blocks) if at not in lost)
    places = tuple(_places(wire) for wire in wires)
    copy = OpenCopy(job, plan.session_id, plan.location_id, kept, places, generation)
    try:
        await _tell_sources(index, copy, plan, blocks)
    except BaseException:
        await asyncio.shield(asyncio.ensure_future(give_up(index, copy)))
        raise
    return copy


def _generation(index: RedisIndex, instance: InstanceEntry) -> int:
    return index.connection.generation_of(keyspace.instance(instance.number, 0))


def _places(wire: bytes) -> list[tuple[str, str]]:
    return [(spec.name, spec.uri) for spec in codec.parse_location(wire).location_specs]


async def _tell_sources(
    index: RedisIndex, copy: OpenCopy, plan: WritePlan, blocks: Sequence[HeldBlock]
) -> None:
    """The session's own copy in each shard learns what its blocks were read from."""
    shards = shards_of(copy.job.instance)
    for number, indexes in by_shard(plan.keys, copy.job.instance.shards).items():
        sources = "".join(blocks[at].location.location_id for at in indexes)
        reply = await index.function(
            *("kvcm_copy", shards[number].base, copy.session_id),
            *(int(copy.job.is_move), copy.job.delay_ms, sources),
        )
        if reply[0] != b"OK":
            raise DomainError(Code.NOT_READY, SESSION_GONE)


async def finish_copy(index: RedisIndex, copy: OpenCopy, success: Sequence[bool]) -> list[bool]:
    """Ends the session. Says of each block whether it is served from its new place now.

    A block whose source is not served any more is not, whatever `success` says. Raises DomainError when
    nothing was copied: INTERNAL, the session was over; NOT_READY, the index was restarted meanwhile, and
    may have forgotten that a source went before it was read.
    """
    if _generation(index, copy.job.instance) != copy.generation:
        await give_up(index, copy)
        raise DomainError(Code.NOT_READY, "the index was restarted meanwhile")
    await index.finish(copy.job.instance, copy.session_id, list(success))
    records = await index.read_records(copy.job.instance, [block.key for block in copy.blocks])
    return [
        any(
            one.location_id == copy.location_id and one.status == codec.SERVING
            for one in codec.locations(record or b"")
        )
        for record in records
    ]


async def give_up(index: RedisIndex, copy: OpenCopy) -> None:
    """Fails the whole session at once; one that cannot be reached expires."""
    try:
        await index.finish(copy.job.instance, copy.session_id, [False] * len(copy.blocks))
    except DomainError:
        return


def _plan(index: RedisIndex, job: CopyJob, blocks: Sequence[HeldBlock]) -> WritePlan:
    now, location_id = index.now_ms(), random_id(8)
    shapes: dict[Shape, int] = {}
    shape_of = [shapes.setdefault(shape_of_location(block.location), len(shapes)) for block in blocks]
    names: Sequence[str] = ()
    if job.instance.has_values:
        names = [object_name(job.instance, block.location) for block in blocks]
    return WritePlan(
        instance=job.instance,
        group=job.group,
        session_id=random_id(24) + location_id,
        location_id=location_id,
        keys=[block.key for block in blocks],
        depths=[block.depth for block in blocks],
        shapes=tuple(shapes),
        shape_of=shape_of if len(shapes) > 1 else (),
        insert_by_ms=now + min(INSERT_SECONDS * 1000, job.timeout_ms),
        deadline_ms=now + job.timeout_ms,
        object_names=names,
        # A copy is as old as the youngest that it is made with, so the cold stay cold.
        tick_ms=max(block.run.tick_ms for block in blocks),
        replaced={at: block.record for at, block in enumerate(blocks)},
    )


def shape_of_location(location: StoredLocation) -> Shape:
    """What the location holds, so that its copy stands for the same: parts stay parts."""
    specs = tuple(LocationSpecInfo(name, uris.parse_uri(uri).size) for name, uri in location.specs())
    return Shape(location.target, specs, location.is_partial)


def object_name(instance: InstanceEntry, location: StoredLocation) -> str:
    """The name of a value's object: it is in the URI, between its spec and the location id (core.uris)."""
    spec_name, uri = location.specs()[0]
    head, _, rest = uri.partition(f"{instance.instance_id}/{spec_name}/")
    name, _, tail = rest.partition(f".{location.location_id}")
    if not head or not name or (tail and tail[0] not in "?&"):
        raise ValueError(f"no object of instance {instance.instance_id}: {uri!r}")
    return name


def covering(block: HeldBlock, numbers: Iterable[int]) -> StoredLocation | None:
    """A location on these storages from which the block is served as it is from its own."""
    wanted = frozenset(numbers)
    names = set(block.location.spec_names())
    for other in codec.locations(block.record):
        if (
            other.storage_number in wanted
            and other.status == codec.SERVING
            and other.target == block.location.target
            and other.location_id != block.location.location_id
            and names <= set(other.spec_names())
        ):
            return other
    return None


def is_on_its_way(block: HeldBlock, numbers: Iterable[int]) -> bool:
    """Whether somebody writes the block there now."""
    wanted = frozenset(numbers)
    return any(
        other.storage_number in wanted and other.status == LocationStatus.WRITING
        for other in codec.locations(block.record)
    )


async def shed(
    index: RedisIndex,
    instance: InstanceEntry,
    pairs: Sequence[tuple[HeldBlock, StoredLocation]],
    delay_ms: int,
) -> tuple[int, int]:
    """Drops the locations of blocks that are served from the other one, too; (locations, bytes).

    Raises DomainError(NOT_READY) while the index is in doubt: the other one may be gone.
    """
    await index.require_no_doubt(instance)
    shards = shards_of(instance)
    count = size = 0
    for number, indexes in by_shard([block.key for block, _ in pairs], instance.shards).items():
        for at in range(0, len(indexes), SHED_CHUNK):
            part = [pairs[i] for i in indexes[at : at + SHED_CHUNK]]
            done, freed = await index.function(
                *("kvcm_shed", shards[number].base, delay_ms),
                codec.pack_keys([block.key for block, _ in part]),
                "".join(block.location.location_id + other.location_id for block, other in part),
            )
            count, size = count + done, size + int(freed)
        index.pusher.mark(shards[number])
    index.on_removal(instance)
    return count, size


async def cooled(index: RedisIndex, blocks: Iterable[HeldBlock]) -> None:
    """The runs of these blocks were dealt with: their uses count anew."""
    names: dict[str, set[bytes]] = {}
    for block in blocks:
        names.setdefault(block.run.shard.base, set()).add(block.run.name)
    for base, runs in names.items():
        await index.function("kvcm_cooled", base, *sorted(runs))


async def hot_runs(index: RedisIndex, base: str, uses: int, at_most: int) -> list[tuple[bytes, int]]:
    """Runs used at least so often lately, with their place in the recency order; the hottest first."""
    call = index.connection.call
    runs = await call("FCALL", "kvcm_hot", 1, base, uses, at_most)
    if not runs:
        return []
    scores = await index.connection.pipeline([("ZSCORE", keyspace.recency(base), run) for run in runs])
    return [(run, int(float(score))) for run, score in zip(runs, scores, strict=True) if score is not None]
