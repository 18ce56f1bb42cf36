"""Enumerations of storages, in the form that model fields and serializers take."""

from enum import StrEnum

from kvcm_platform.core.types import StorageType

STORAGE_TYPES = [(kind.value, kind.value) for kind in StorageType]


class HealthState(StrEnum):
    """What the checks say of a storage. Unknown = never checked."""

    OK = "ok"
    FAILING = "failing"
    UNKNOWN = "unknown"
