"""Which class stands for which kind of storage."""

from __future__ import annotations

from collections.abc import Callable

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.types import StorageType

from .backend import DataStorageBackend, SlotLedger
from .mounted import MountedBackend

BACKENDS: dict[StorageType, Callable[[StorageEntry, SlotLedger], DataStorageBackend]] = {
    StorageType.NFS: MountedBackend,
    # A mounted 3FS is a directory like any other: slot files, holes and all.
    StorageType.HF3FS: MountedBackend,
    StorageType.VCNS_HF3FS: MountedBackend,
}


def is_supported(kind: StorageType) -> bool:
    """Whether blocks can be kept on storages of this kind: what is written must be deletable."""
    return kind in BACKENDS


def backend_for(entry: StorageEntry, ledger: SlotLedger) -> DataStorageBackend | None:
    """The backend of a storage; None while its kind has none."""
    make = BACKENDS.get(entry.type)
    return None if make is None else make(entry, ledger)
