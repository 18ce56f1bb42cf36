"""`storage_configs`: what a registered client learns of its group's storages (WIRE.md 2.2)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    StorageType.DUMMY: ("root_path", "key_count_per_file"),
}
_NUMBERS = frozenset({"key_count_per_file", "remote_port", "timeout"})
_SPELLED = {"master_service_entry": "master_server_entry"}
"""The JSON form spells this member differently from the message."""
_MEMBER_OF = {spelled: name for name, spelled in _SPELLED.items()}


@dataclass(frozen=True, slots=True)
class StorageDescription:
    """One storage that an instance's URIs may name. `type` is the scheme-like name, "file".

    The spec's members have their protocol's names.
    """

    name: str
    type: str
    is_available: bool
    spec: Mapping[str, Any] = field(default_factory=dict)


def described(storage: StorageEntry) -> StorageDescription:
    """What a client knows of the storage, and the members of its spec that clients are not told."""
    return StorageDescription(storage.name, URI_SCHEME[storage.type], storage.is_served, storage.spec)


def read_storage_configs(text: str) -> tuple[StorageDescription, ...]:
    """The inverse of `storage_configs`; missing members are fine. ValueError for what is no such text."""
    entries = json.loads(text) if text else []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("storage_configs: a list of objects is expected")
    return tuple(
        StorageDescription(
            name=str(entry.get("global_unique_name", "")),
            type=str(entry.get("type", "")),
            is_available=bool(entry.get("is_available", True)),
            spec={_MEMBER_OF.get(name, name): value for name, value in _spec_of(entry).items()},
        )
        for entry in entries
    )


def _spec_of(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = entry.get("storage_spec")
    return spec if isinstance(spec, dict) else {}


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
