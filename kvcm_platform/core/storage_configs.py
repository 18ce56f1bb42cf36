"""`storage_configs`: what a registered client learns of its group's storages (WIRE.md 2.2)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .registry import StorageEntry
from .types import URI_SCHEME, StorageType

_THREE_FS = ("cluster_name", "mountpoint", "root_dir", "key_count_per_file")
MEMBERS: dict[StorageType, tuple[str, ...]] = {
    StorageType.NFS: ("root_path", "key_count_per_file"),
    StorageType.HF3FS: _THREE_FS,
    StorageType.VCNS_HF3FS: (*_THREE_FS, "remote_host", "remote_port", "meta_storage_uri"),
    StorageType.MOONCAKE: (
        "local_hostname",
        "metadata_connstring",
        "protocol",
        "rdma_device",
        "master_service_entry",
    ),
    StorageType.TAIR_MEMPOOL: ("domain", "timeout", "enable_vipserver"),
}
_NUMBERS = frozenset({"key_count_per_file", "remote_port", "timeout"})
_SPELLED = {"master_service_entry": "master_server_entry"}
"""The JSON form spells this member differently from the message."""


def _member(storage: StorageEntry, name: str) -> Any:
    default: Any = 0 if name in _NUMBERS else False if name == "enable_vipserver" else ""
    return storage.spec.get(name, default)


def storage_configs(storages: Sequence[StorageEntry]) -> str:
    """A JSON array, one object per existing candidate, in the group's order."""
    return json.dumps(
        [
            {
                "type": URI_SCHEME[storage.type],
                "is_available": storage.is_served,
                "global_unique_name": storage.name,
                "storage_spec": {
                    _SPELLED.get(name, name): _member(storage, name) for name in MEMBERS[storage.type]
                },
            }
            for storage in storages
        ],
        separators=(",", ":"),
    )
