"""Operations on the index that commands and doors share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog
from django.utils import timezone

from apps.audit.services import event_record
from apps.common.conditions import Severity
from kvcm_platform.duties.session import index_session, rocksdb_session
from kvcm_platform.index.damage import Damage
from kvcm_platform.index.pool_recount import SegmentCount, recount_pools
from kvcm_platform.index.recount import GroupCount, recount_group

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class IndexCount:
    groups: list[GroupCount]
    segments: list[SegmentCount]

    @property
    def has_drift(self) -> bool:
        return any(group.has_drift for group in self.groups) or any(one.has_drift for one in self.segments)


async def index_recount(redis_url: str, *, repair: bool, rocksdb_folder: Path | None = None) -> IndexCount:
    """One count a group, removed instances with data left included, and one a segment of a memory pool.

    Groups with an instance whose index is in a metadata process are left out, unless `rocksdb_folder`
    names the index of one that is stopped; while it runs, DomainError(IN_USE) is raised.
    Raises StillChanging while traffic goes on, redis.RedisError when the index cannot be reached.
    """
    if rocksdb_folder is None:
        opened = index_session(redis_url)
    else:
        opened = rocksdb_session(redis_url, rocksdb_folder)
    async with opened as session:
        storages = list(session.registry.storages.values())
        segments = await recount_pools(session.index, storages, session.all_instances, repair=repair)
        names = {group.number: name for name, group in session.registry.groups.items()}
        for entry in session.leaving:
            names.setdefault(entry.group_number, entry.group)
        elsewhere = {
            entry.group_number
            for entry in session.registry.instances.values()
            if entry.number in session.away
        }
        for number in sorted(elsewhere):
            log.warning("group left out: its index is in a metadata process", group=names[number])
        groups = [
            await recount_group(
                session.index, name, number, partial(session.instances_in, number), repair=repair
            )
            for number, name in sorted(names.items())
            if number not in elsewhere
        ]
        return IndexCount(groups, segments)


def damages_record(found: Sequence[Damage]) -> None:
    """Note among the events that shards or groups had lost keys by themselves."""
    for one in found:
        event_record(
            at=timezone.now(),
            kind="index.keys_lost" if one.mended_at else "index.keys_missing",
            severity=Severity.WARNING if one.mended_at else Severity.CRITICAL,
            subject_kind="platform",
            subject=one.subject,
            message=one.sentence,
            groups=[one.group],
        )
