"""Which module stands for which type of storage: one row a type."""

from __future__ import annotations

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.types import StorageType

from . import dummy, hf3fs, mooncake, nfs, tair_mempool, vcns_hf3fs
from .backend import DataStorageBackend, Ledgers, StorageKind

KINDS: dict[StorageType, StorageKind] = {
    StorageType.NFS: nfs.KIND,
    StorageType.HF3FS: hf3fs.KIND,
    StorageType.VCNS_HF3FS: vcns_hf3fs.KIND,
    StorageType.TAIR_MEMPOOL: tair_mempool.KIND,
    StorageType.DUMMY: dummy.KIND,
    StorageType.MOONCAKE: mooncake.KIND,
}


def backend_for(entry: StorageEntry, ledgers: Ledgers) -> DataStorageBackend | None:
    """The backend of a storage; None while its type has none."""
    kind = KINDS.get(entry.type)
    return None if kind is None else kind.make(entry, ledgers)
