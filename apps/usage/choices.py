"""What histories are about, and how fine they are."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple

from apps.common.choices import choices_of


class Kind(StrEnum):
    """Of a series. PLATFORM has one, the sum over all groups, with an empty name."""

    PLATFORM = "platform"
    GROUP = "group"
    STORAGE = "storage"
    INSTANCE = "instance"


KINDS = choices_of(Kind)


class RowKind(StrEnum):
    """What a row of usage is about: a group as a whole, one type of storage in it, a storage."""

    GROUP = "group"
    STORAGE_TYPE = "storage_type"
    STORAGE = "storage"


ROW_KINDS = choices_of(RowKind)


class Resolution(IntEnum):
    """Seconds that one point covers."""

    SECOND = 1
    MINUTE = 60
    HOUR = 3600


KEPT_SECONDS = {
    Resolution.SECOND: 15 * 60,
    Resolution.MINUTE: 24 * 3600,
    Resolution.HOUR: 90 * 24 * 3600,
}
"""How long points stay; what is coarser was made of them by then."""


class SeriesKey(NamedTuple):
    """Whose history it is. `group` is that of an instance, which may come back in another one; else ""."""

    kind: Kind
    name: str
    group: str = ""


PLATFORM = SeriesKey(Kind.PLATFORM, "")
