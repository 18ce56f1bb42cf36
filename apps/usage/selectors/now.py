"""What is held now, and what comes of it: one row a limit, and one a storage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import redis
import structlog

from apps.common.actor import Actor
from apps.common.redis_client import figures_client
from apps.instances.selectors import group_details, group_list, limit_keys
from apps.storages.selectors import storage_list, storage_names
from apps.storages.usage import RecentUsage, UsageByNumber, usage_of
from apps.usage.choices import Kind, RowKind, SeriesKey
from apps.usage.models import Series
from kvcm_platform.core.growth import Growth, Outlook, growth_from_dict, outlook_of
from kvcm_platform.core.levels import GroupReading, group_levels, marks_of_storage, type_levels
from kvcm_platform.core.points import Levels
from kvcm_platform.core.registry import GroupEntry
from kvcm_platform.core.types import StorageType
from kvcm_platform.index.group_readings import read_groups

if TYPE_CHECKING:
    from apps.storages.models import Storage

log = structlog.get_logger(__name__)
_recent = RecentUsage(seconds=0.5)
"""Pages that look at once ask the index once."""


class RowKey(NamedTuple):
    """`name` is that of the group or of the storage; `type` "" for a group as a whole."""

    kind: RowKind
    name: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class UsageRow:
    """`levels` is None while the index does not answer; a type has no history, and so no growth.

    `device_free_bytes`: what a storage's device had left at the last check. `quota_bytes`: the limit that
    was set of a group or a type.
    """

    key: RowKey
    levels: Levels | None
    growth: Growth | None = None
    outlook: Outlook | None = None
    device_free_bytes: int | None = None
    storage_type: str = ""
    quota_bytes: int | None = None


def group_keys(*, acting: Actor) -> list[RowKey]:
    """Of every group that may be seen, then of the types that have a limit in it."""
    return [
        RowKey(RowKind.STORAGE_TYPE, name, kind.value) if kind else RowKey(RowKind.GROUP, name)
        for name, kind in limit_keys(acting=acting)
    ]


def all_keys(*, acting: Actor) -> list[RowKey]:
    storages = [RowKey(RowKind.STORAGE, name) for name in sorted(storage_names())]
    return [*group_keys(acting=acting), *storages]


def by_growth(keys: Sequence[RowKey], *, is_falling: bool) -> list[RowKey]:
    """By bytes a second; those of which nothing is known come last, either way."""
    known = _growths(_names(keys, RowKind.GROUP), _names(keys, RowKind.STORAGE))
    slopes = {key: growth.trend.bytes_per_second for key, growth in known.items() if growth.trend.points}
    kinds = {RowKind.GROUP: Kind.GROUP, RowKind.STORAGE: Kind.STORAGE}

    def place(key: RowKey) -> tuple[bool, float, str]:
        slope = slopes.get(SeriesKey(kinds[key.kind], key.name)) if key.kind in kinds else None
        return slope is None, 0.0 if slope is None else -slope if is_falling else slope, key.name

    return sorted(keys, key=place)


def rows_of(keys: Sequence[RowKey], *, acting: Actor) -> list[UsageRow]:
    """One page: a handful of queries and one look at the index, however many rows."""
    names = {key.name for key in keys if key.kind is not RowKind.STORAGE}
    groups = _groups(names, acting)
    storages = {row.name: row for row in storage_list().filter(name__in=_names(keys, RowKind.STORAGE))}
    growths = _growths(names, storages)
    readings = _readings(groups)
    usages = _usages() if storages else None
    rows = []
    for key in keys:
        if key.kind is RowKind.STORAGE and key.name in storages:
            rows.append(_storage_row(key, storages[key.name], usages, growths))
        elif key.name in groups:
            reading = None if readings is None else readings.get(key.name)
            rows.append(_group_row(key, groups[key.name], reading, growths))
    return rows


def _names(keys: Iterable[RowKey], kind: RowKind) -> list[str]:
    return [key.name for key in keys if key.kind is kind]


def _groups(names: Iterable[str], acting: Actor) -> dict[str, GroupEntry]:
    rows = list(group_list(acting=acting).filter(name__in=names))
    return {detail.entry.name: detail.entry for detail in group_details(rows)}


def _growths(groups: Iterable[str], storages: Iterable[str]) -> dict[SeriesKey, Growth]:
    found: dict[SeriesKey, Growth] = {}
    for kind, names in ((Kind.GROUP, groups), (Kind.STORAGE, storages)):
        for row in Series.objects.filter(kind=kind.value, name__in=list(names)):
            found[row.key] = growth_from_dict(row.growth)
    return found


def _readings(groups: Mapping[str, GroupEntry]) -> dict[str, GroupReading] | None:
    try:
        return read_groups(figures_client(), groups)
    except redis.RedisError as error:
        log.warning("figures are not shown: the index does not answer", error=str(error))
        return None


def _usages() -> UsageByNumber | None:
    try:
        return _recent.get(figures_client())
    except redis.RedisError as error:
        log.warning("figures are not shown: the index does not answer", error=str(error))
        return None


def _group_row(
    key: RowKey, group: GroupEntry, reading: GroupReading | None, growths: Mapping[SeriesKey, Growth]
) -> UsageRow:
    if key.kind is RowKind.STORAGE_TYPE:
        levels = None if reading is None else type_levels(group, StorageType(key.type), reading)
        quota = group.quota.per_type.get(StorageType(key.type))
        return UsageRow(key, levels, storage_type=key.type, quota_bytes=quota)
    growth = growths.get(SeriesKey(Kind.GROUP, key.name), Growth())
    quota = group.quota.capacity_bytes
    if reading is None:
        return UsageRow(key, None, growth, quota_bytes=quota)
    levels = group_levels(group, reading)
    return UsageRow(key, levels, growth, outlook_of(growth, levels), quota_bytes=quota)


def _storage_row(
    key: RowKey, storage: Storage, usages: UsageByNumber | None, growths: Mapping[SeriesKey, Growth]
) -> UsageRow:
    free = device_free_bytes(storage)
    growth = growths.get(SeriesKey(Kind.STORAGE, key.name), Growth())
    if usages is None:
        return UsageRow(key, None, growth, None, free, storage.type)
    usage = usage_of(storage, usages)
    limit, high, low = marks_of_storage(storage.entry())
    levels = Levels(
        used_bytes=usage.used_bytes,
        writing_bytes=usage.writing_bytes,
        serving_bytes=usage.used_bytes - usage.pending_bytes - usage.writing_bytes,
        pending_bytes=usage.pending_bytes,
        blocks=usage.blocks,
        limit_bytes=limit,
        high_bytes=high,
        low_bytes=low,
    )
    return UsageRow(key, levels, growth, outlook_of(growth, levels, room_bytes=free), free, storage.type)


def device_free_bytes(storage: Storage) -> int | None:
    """What its device had left at the last check; None where that says nothing."""
    if storage.device_capacity_bytes is None or storage.device_used_bytes is None:
        return None
    return max(0, storage.device_capacity_bytes - storage.device_used_bytes)
