"""Enumerations of storages, in the form that model fields and serializers take."""

from enum import StrEnum

from apps.common.choices import choices_of
from kvcm_platform.core.types import StorageType

STORAGE_TYPES = choices_of(StorageType)


class HealthState(StrEnum):
    """What the checks say of a storage. Unknown = never checked."""

    OK = "ok"
    FAILING = "failing"
    UNKNOWN = "unknown"


class HealthEvent(StrEnum):
    """A turn in the life of a storage or of one of its segments."""

    AVAILABLE = "available"
    UNAVAILABLE = "unavailable"
    FULL = "full"
    HAS_ROOM = "has_room"
    ENABLED = "enabled"
    DISABLED = "disabled"
    DRAINING = "draining"
    DRAINED = "drained"
    """Its drain has come to its end: it holds nothing more."""
    DRAIN_ENDED = "drain_ended"
    LEAVING = "leaving"
    STAYS = "stays"
    """Its removal was called off."""
    ABANDONED = "abandoned"
    CONTENT_LOST = "content_lost"
    """What was stored may be gone: every block on it is checked."""
    SEGMENT_FOUND = "segment_found"
    SEGMENT_UNAVAILABLE = "segment_unavailable"
    SEGMENT_RETURNED = "segment_returned"
    SEGMENT_LOST = "segment_lost"
    SEGMENT_SETTLED = "segment_settled"
    """The index holds nothing more of a lost segment."""


class IncidentKind(StrEnum):
    """What an incident was about, from its beginning to its end."""

    UNAVAILABLE = "unavailable"
    FULL = "full"
    CONTENT_LOST = "content_lost"
    SEGMENT_UNAVAILABLE = "segment_unavailable"
    SEGMENT_LOST = "segment_lost"


class SegmentState(StrEnum):
    """Of a memory segment of a pool. Lost = gone for good; its blocks are being cleared."""

    AVAILABLE = "available"
    UNAVAILABLE = "unavailable"
    LOST = "lost"


class DepartureKind(StrEnum):
    """Why a storage empties: no new blocks come to it, or its blocks are removed because it is."""

    DRAINING = "draining"
    LEAVING = "leaving"


class BulkAction(StrEnum):
    """What can be done to several storages at once."""

    ENABLE = "enable"
    DISABLE = "disable"
    DRAIN = "drain"
    UNDRAIN = "undrain"


class OrphanRunState(StrEnum):
    """Where a search for orphans stands. Queued and running ones are under way."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
