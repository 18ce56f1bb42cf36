"""Whether a storage is over its own capacity, and the room that is published for choosing among storages."""

from __future__ import annotations

from datetime import datetime

from apps.storages.models import Storage
from kvcm_platform.core.capacity import ByteMarks, Room, Watermarks, free_room, fullest, is_worth_telling
from kvcm_platform.core.sizes import sized
from kvcm_platform.index.stats import StorageUsage

TELL_ROOM_EVERY_SECONDS = 30
"""Room is told in the first check of each such span of time: all storages' in one publication."""


def capacity_note(storage: Storage, usage: StorageUsage | None) -> str:
    """Say whether the storage is over its high watermark; the reason while it is.

    The blocks in the index count against its capacity, the device's own figure against the device.
    Without `usage` (the index does not answer) what was found last stays.
    """
    if usage is None and storage.capacity_bytes is not None:
        return storage.full_reason if storage.is_over_capacity else ""
    rooms = rooms_of(storage, usage)
    if not rooms:
        storage.is_over_capacity = False
        return ""
    marks = Watermarks.of(storage.high_watermark_ratio, storage.low_watermark_ratio)
    room = fullest(rooms)
    storage.is_over_capacity = marks.is_over(room.ratio, was_over=storage.is_over_capacity)
    if not storage.is_over_capacity:
        return ""
    whose = "its capacity" if room is rooms[0] and storage.capacity_bytes is not None else "its device"
    return (
        f"{sized(room.used_bytes)} of {sized(room.limit_bytes or 0)} of {whose} are used; it takes new blocks"
        f" below {marks.low:.0%} (high watermark {marks.high:.0%})"
    )


def room_note(
    storage: Storage, usage: StorageUsage | None, *, at: datetime, previous_at: datetime | None
) -> bool:
    """Keep the room for new blocks in the row; whether it changed so much that the data plane must know.

    `previous_at` is the time of the check before.
    """
    if usage is None and storage.capacity_bytes is not None:
        return False
    if storage.free_bytes is not None and previous_at is not None and _span(previous_at) == _span(at):
        return False
    rooms = rooms_of(storage, usage)
    marks = Watermarks.of(storage.high_watermark_ratio, storage.low_watermark_ratio)
    now = free_room(rooms, marks.high)
    smallest = min((room.limit_bytes for room in rooms if room.limit_bytes), default=0)
    if not is_worth_telling(storage.free_bytes, now, smallest):
        return False
    storage.free_bytes = now
    return True


def marks_note(
    storage: Storage, usage: StorageUsage | None, *, at: datetime, previous_at: datetime | None
) -> tuple[bool, bool]:
    """Keep the marks of reclaim in the row.

    Returns (whether the data plane must know, whether the storage is over its high mark). They are told
    with the room, and at once where the ones told before would say otherwise about what is there now.
    """
    if usage is None:
        return False, False
    own, device = _own_room(storage, usage), _device_room(storage)
    marks = Watermarks.of(storage.high_watermark_ratio, storage.low_watermark_ratio)
    now = ByteMarks.of(marks, held_bytes=usage.used_bytes, own=own, device=device)
    told = _told_marks(storage)
    live = usage.used_bytes - usage.pending_bytes
    is_over = now is not None and now.is_over(live)
    if now == told:
        return False, is_over
    if now is not None and told is not None and device is not None and told.is_over(live) == is_over:
        is_early = previous_at is not None and _span(previous_at) == _span(at)
        limit = device.limit_bytes or 0
        has_moved = is_worth_telling(told.high, now.high, limit) or is_worth_telling(told.low, now.low, limit)
        if is_early or not has_moved:
            return False, is_over
    storage.high_bytes = None if now is None else now.high
    storage.low_bytes = None if now is None else now.low
    return True, is_over


def _told_marks(storage: Storage) -> ByteMarks | None:
    if storage.high_bytes is None or storage.low_bytes is None:
        return None
    return ByteMarks(storage.high_bytes, storage.low_bytes)


def _span(at: datetime) -> int:
    return int(at.timestamp()) // TELL_ROOM_EVERY_SECONDS


def rooms_of(storage: Storage, usage: StorageUsage | None) -> list[Room]:
    """The limits of a storage: the capacity that its operator set, then its device's."""
    return [room for room in (_own_room(storage, usage), _device_room(storage)) if room is not None]


def _own_room(storage: Storage, usage: StorageUsage | None) -> Room | None:
    if storage.capacity_bytes is None or usage is None:
        return None
    return Room(usage.used_bytes, storage.capacity_bytes)


def _device_room(storage: Storage) -> Room | None:
    if not storage.device_capacity_bytes or storage.device_used_bytes is None:
        return None
    return Room(storage.device_used_bytes, storage.device_capacity_bytes)
