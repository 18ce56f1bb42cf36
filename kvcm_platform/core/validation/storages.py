"""Rules for storages: the members of each type's spec, and the settings around it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvcm_platform.core.errors import invalid
from kvcm_platform.core.types import StorageType

from .values import INT32, INT64, check_path_part, number, text


@dataclass(frozen=True, slots=True)
class SpecField:
    """One member of a storage type's spec. `default` decides its kind: text, number or flag."""

    name: str
    default: str | int | bool = ""
    is_required: bool = False
    low: int = 0
    high: int = INT32
    is_path: bool = False
    choices: tuple[str, ...] = ()


_FILES = (
    SpecField("key_count_per_file", 1, low=0, high=65_535),
    SpecField("touch_file_when_create", False),
)
_3FS = (
    SpecField("cluster_name"),
    SpecField("mountpoint", is_required=True, is_path=True),
    SpecField("root_dir", is_required=True),
    *_FILES,
)

SPEC_FIELDS: dict[StorageType, tuple[SpecField, ...]] = {
    StorageType.NFS: (SpecField("root_path", is_required=True, is_path=True), _FILES[0]),
    StorageType.HF3FS: _3FS,
    StorageType.VCNS_HF3FS: (
        *_3FS,
        SpecField("remote_host", is_required=True),
        SpecField("remote_port", 0, is_required=True, low=1, high=65_535),
        SpecField("meta_storage_uri", is_required=True),
    ),
    StorageType.MOONCAKE: (
        SpecField("local_hostname", is_required=True),
        SpecField("metadata_connstring", is_required=True),
        SpecField("protocol", is_required=True, choices=("tcp", "rdma")),
        SpecField("rdma_device"),
        SpecField("master_service_entry", is_required=True),
    ),
    StorageType.TAIR_MEMPOOL: (
        SpecField("domain", is_required=True),
        SpecField("timeout", 0),
        SpecField("enable_vipserver", False),
        SpecField("service_discovery_url"),
        SpecField("media_type", 0),
    ),
    StorageType.DUMMY: (SpecField("root_path", is_required=True, is_path=True), _FILES[0]),
}

LOCATING_FIELDS = frozenset(
    {"root_path", "mountpoint", "root_dir", "metadata_connstring", "master_service_entry", "domain"}
)
"""Members that say where a storage's data is: changing them makes stored blocks unreachable."""


def check_storage_spec(kind: StorageType, data: Mapping[str, Any]) -> dict[str, Any]:
    """The complete spec of a storage: every member of its type, defaults filled in, paths normalised."""
    fields = {spec_field.name: spec_field for spec_field in SPEC_FIELDS[kind]}
    for name in data:
        if name not in fields:
            raise invalid(f"spec.{name}", f"is not a member of the spec of {kind}")
    spec: dict[str, Any] = {
        name: _spec_value(spec_field, data.get(name)) for name, spec_field in fields.items()
    }
    if "key_count_per_file" in spec:
        spec["key_count_per_file"] = max(1, spec["key_count_per_file"])
    if "root_path" in spec and not spec["root_path"].endswith("/"):
        spec["root_path"] += "/"
    if "root_dir" in spec:
        check_path_part(spec["root_dir"].strip("/"), field="spec.root_dir", may_nest=True)
    if spec.get("protocol") == "rdma" and not spec["rdma_device"]:
        raise invalid("spec.rdma_device", "is required where protocol is rdma")
    return spec


def _spec_value(spec_field: SpecField, value: Any) -> str | int | bool:
    name = f"spec.{spec_field.name}"
    if value is None:
        value = spec_field.default
    if isinstance(spec_field.default, bool):
        if not isinstance(value, bool):
            raise invalid(name, "must be true or false")
        return value
    if isinstance(spec_field.default, int):
        return number(name, value, spec_field.low, spec_field.high)
    given = text(name, value, is_required=spec_field.is_required)
    if spec_field.is_path:
        given = re.sub("/+", "/", given)
        _check_root(name, given)
    if spec_field.choices and given not in spec_field.choices:
        raise invalid(name, f"must be one of {', '.join(spec_field.choices)}")
    return given


def _check_root(name: str, path: str) -> None:
    if not path.startswith("/"):
        raise invalid(name, "must be an absolute path")
    if not path.strip("/"):
        raise invalid(name, "must not be the root of the file system")
    check_path_part(path.strip("/"), field=name, may_nest=True)


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """What operators set on a storage besides its type and spec. None = unset."""

    is_enabled: bool = True
    is_draining: bool = False
    check_storage_available_when_open: bool = False
    weight: int | None = None
    capacity_bytes: int | None = None
    high_watermark_ratio: float | None = None
    low_watermark_ratio: float | None = None
    maintenance_note: str = ""


def check_storage_settings(settings: StorageSettings) -> StorageSettings:
    if settings.weight is not None:
        number("weight", settings.weight, 0, 1000)
    if settings.capacity_bytes is not None:
        number("capacity_bytes", settings.capacity_bytes, 0, INT64)
    high, low = settings.high_watermark_ratio, settings.low_watermark_ratio
    for name, ratio in (("high_watermark_ratio", high), ("low_watermark_ratio", low)):
        if ratio is not None and not 0 < ratio <= 1:
            raise invalid(name, f"must be above 0 and at most 1, not {ratio}")
    if low is not None and low >= (1.0 if high is None else high):
        raise invalid("low_watermark_ratio", "must be below high_watermark_ratio")
    text("maintenance_note", settings.maintenance_note, is_required=False)
    return settings
