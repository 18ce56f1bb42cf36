"""How records and usage name a storage: its wire type << 16 | its number."""

from __future__ import annotations

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.types import STORAGE_TYPE_BY_WIRE, WIRE_STORAGE_TYPE, StorageType

_NUMBER_BITS = 16


def storage_ref(storage: StorageEntry) -> int:
    return WIRE_STORAGE_TYPE[storage.type] << _NUMBER_BITS | storage.number


def number_of(ref: int) -> int:
    """The storage number in a reference."""
    return ref & ((1 << _NUMBER_BITS) - 1)


def type_of(ref: int) -> StorageType:
    """The type of the storage in a reference."""
    return STORAGE_TYPE_BY_WIRE[ref >> _NUMBER_BITS]
