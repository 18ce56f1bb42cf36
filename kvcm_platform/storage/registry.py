"""Which class stands for which kind of storage."""

from __future__ import annotations

from collections.abc import Callable

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.types import StorageType

from .backend import DataStorageBackend, SlotLedger
from .nfs import NfsBackend

BACKENDS: dict[StorageType, Callable[[StorageEntry, SlotLedger], DataStorageBackend]] = {
    StorageType.NFS: NfsBackend,
}


def backend_for(entry: StorageEntry, ledger: SlotLedger) -> DataStorageBackend | None:
    """The backend of a storage; None while its kind has none."""
    make = BACKENDS.get(entry.type)
    return None if make is None else make(entry, ledger)
