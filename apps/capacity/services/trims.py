"""Trims that people ask for: what one would take, and taking it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings as django_settings

from apps.audit.services import audit_record
from apps.common.actor import Actor
from apps.common.queue import DUTIES_TASK, enqueue
from apps.instances.selectors import instance_get
from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.ports import TrimMode
from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.core.removal import delete_delay_ms, trim_span
from kvcm_platform.core.sizes import sized
from kvcm_platform.core.types import TrimStrategy
from kvcm_platform.duties.reclaim_preview import PREVIEW_SECONDS
from kvcm_platform.duties.session import IndexSession, index_session
from kvcm_platform.index import trims

INLINE_SECONDS = 2.0
"""What a trim does before its caller has an answer; the duties do the rest."""

STRATEGIES = {
    "all": TrimStrategy.REMOVE_ALL_CACHE,
    "all_meta": TrimStrategy.REMOVE_ALL_META,
    "written": TrimStrategy.TIMESTAMP,
}
"""Everything; everything, with the objects left as orphans; what was finished within a span of time."""


@dataclass(frozen=True, slots=True)
class TrimWish:
    """`begin` and `end` are of the strategy `written`, inclusive; None = open."""

    instance_id: str
    strategy: str
    begin: datetime | None = None
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class TrimPreview:
    """Locations that a trim would take, and their bytes; lower bounds where not complete."""

    instance_group: str
    sentence: str
    blocks: int
    bytes: int
    by_storage: dict[str, list[int]]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class TrimDone:
    """`blocks` = locations marked so far; one that is not complete goes on in the background."""

    id: str
    instance_group: str
    blocks: int
    is_complete: bool


def trim_preview(*, acting: Actor, wish: TrimWish) -> TrimPreview:
    """What a trim would take now. Raises as `trim`."""
    group = _checked(acting, wish)

    async def run() -> TrimPreview:
        async with index_session(django_settings.KVCM_REDIS_URL) as session:
            entry = _entry(session, wish.instance_id)
            mode, begin, end = await _span(session, entry, wish)
            found = await trims.count(session.index, entry, mode, begin, end, PREVIEW_SECONDS)
            names = session.registry.storage_by_number()
            by_storage: dict[str, list[int]] = {}
            for number, (blocks, size) in found.by_number.items():
                name = names[number].name if number in names else f"#{number}"
                so_far = by_storage.setdefault(name, [0, 0])
                so_far[0] += blocks
                so_far[1] += size
            return TrimPreview(
                *(group, _sentence(wish, found)), found.blocks, found.size, by_storage, found.is_complete
            )

    return asyncio.run(run())


def trim(*, acting: Actor, wish: TrimWish) -> TrimDone:
    """Carry a trim out; it is on record, so that a crash does not end it.

    Raises INVALID_ARGUMENT, INSTANCE_NOT_EXIST, NOT_READY, UNSUPPORTED, redis.RedisError.
    """
    group = _checked(acting, wish)
    job = asyncio.run(_job(wish))
    audit_record(
        acting=acting,
        action="cache.trim",
        kind="instance_group",
        name=group,
        after={
            "instance_id": wish.instance_id,
            "strategy": wish.strategy,
            **{name: at.isoformat() for name, at in (("begin", wish.begin), ("end", wish.end)) if at},
        },
    )
    done = asyncio.run(_carry_out(job, group))
    enqueue(DUTIES_TASK)
    return done


async def _job(wish: TrimWish) -> trims.Trim:
    """What is to be begun; nothing is on record of a trim that cannot be."""
    async with index_session(django_settings.KVCM_REDIS_URL) as session:
        entry = _entry(session, wish.instance_id)
        mode, begin, end = await _span(session, entry, wish)
        delay = delete_delay_ms(session.registry.groups.get(entry.group))
        return trims.Trim(entry, mode, begin, end, delay)


async def _carry_out(wanted: trims.Trim, group: str) -> TrimDone:
    async with index_session(django_settings.KVCM_REDIS_URL) as session:
        job = await trims.begin(session.index, wanted)
        progress = trims.Progress()
        deadline = time.monotonic() + INLINE_SECONDS
        is_done = await trims.run(session.index, job, progress, deadline=deadline)
        return TrimDone(job.id, group, progress.marked, is_done)


def _sentence(wish: TrimWish, found: trims.TrimCount) -> str:
    if not found.blocks and found.is_complete:
        return f"Nothing of instance {wish.instance_id} would go."
    least = "" if found.is_complete else "At least "
    left = " Their bytes would stay, as orphans." if wish.strategy == "all_meta" else ""
    return f"{least}{found.blocks} blocks of instance {wish.instance_id} would go: {sized(found.size)}.{left}"


def _checked(acting: Actor, wish: TrimWish) -> str:
    """The name of the instance's group."""
    if wish.strategy not in STRATEGIES:
        raise invalid("strategy", f"must be one of {', '.join(STRATEGIES)}")
    if wish.strategy != "written" and (wish.begin or wish.end):
        raise invalid("begin" if wish.begin else "end", "is of the strategy written alone")
    return str(instance_get(acting=acting, instance_id=wish.instance_id).group.name)


def _entry(session: IndexSession, instance_id: str) -> InstanceEntry:
    entry = session.registry.instances.get(instance_id)
    if entry is None or not session.reaches(entry):
        raise DomainError(Code.NOT_READY, f"the index of instance {instance_id} does not answer yet")
    if entry.number in session.away:
        raise DomainError(
            Code.UNSUPPORTED,
            f"the index of instance {instance_id} is in a metadata process: TrimCache there takes its blocks",
        )
    return entry


async def _span(session: IndexSession, entry: InstanceEntry, wish: TrimWish) -> tuple[TrimMode, int, int]:
    now = await session.index.read_clock(entry)
    begin = 0 if wish.begin is None else _ms(wish.begin)
    end = None if wish.end is None else _ms(wish.end)
    return trim_span(STRATEGIES[wish.strategy], begin, end, now)


def _ms(moment: datetime) -> int:
    return max(0, round(moment.timestamp() * 1000))
