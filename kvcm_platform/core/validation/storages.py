"""Rules for storages: the members of each type's spec, and the settings around it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from kvcm_platform.core.errors import invalid
from kvcm_platform.core.pool_addresses import split_domain
from kvcm_platform.core.types import MEDIA_TYPES, StorageType

from .secrets import without_password
from .values import INT32, INT64, check_path_part, number, text


class FieldKind(StrEnum):
    """What a member of a spec is, for a form that asks for it."""

    TEXT = "text"
    PATH = "path"
    NUMBER = "number"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Choice:
    value: str | int
    label: str


@dataclass(frozen=True, slots=True)
class SpecField:
    """One member of a storage type's spec: its rules, and what a form says about it.

    `default` decides its kind: text, number or flag.
    """

    name: str
    label: str
    default: str | int | bool = ""
    is_required: bool = False
    low: int = 0
    high: int = INT32
    is_path: bool = False
    is_locating: bool = False
    """It says where the data is: another value makes the stored blocks unreachable."""
    is_secret: bool = False
    """A URL that may carry a password, which is hidden from whoever reads the spec."""
    is_rest_only: bool = False
    """The protocol has no place for it: what comes from there neither sets nor clears it."""
    choices: tuple[Choice, ...] = ()
    help: str = ""
    unit: str = ""
    example: str = ""

    @property
    def kind(self) -> FieldKind:
        if isinstance(self.default, bool):
            return FieldKind.FLAG
        if isinstance(self.default, int):
            return FieldKind.NUMBER
        return FieldKind.PATH if self.is_path else FieldKind.TEXT


_KEYS_PER_FILE = SpecField(
    "key_count_per_file",
    "Blocks a file",
    1,
    high=65_535,
    unit="blocks",
    help="Blocks of one write that share a file. With 1 each block is a file of its own.",
)
_TOUCH = SpecField(
    "touch_file_when_create",
    "Create files at the start of a write",
    False,
    help="Empty files are made before engines learn of them, so that a write that cannot succeed is refused.",
)
_ROOT_PATH = SpecField(
    "root_path",
    "Root folder",
    is_required=True,
    is_path=True,
    is_locating=True,
    help="The same path on every host that reads or writes blocks.",
    example="/mnt/kv/",
)
_3FS = (
    SpecField("cluster_name", "Cluster", help="Name of the 3FS cluster, handed to engines.", example="stage"),
    SpecField(
        "mountpoint",
        "Mountpoint",
        is_required=True,
        is_path=True,
        is_locating=True,
        help="Where 3FS is mounted, on every host alike.",
        example="/3fs/stage",
    ),
    SpecField(
        "root_dir",
        "Folder",
        is_required=True,
        is_locating=True,
        help="Folder below the mountpoint that holds the blocks.",
        example="kvcache",
    ),
    _KEYS_PER_FILE,
    _TOUCH,
)

SPEC_FIELDS: dict[StorageType, tuple[SpecField, ...]] = {
    StorageType.NFS: (_ROOT_PATH, _KEYS_PER_FILE),
    StorageType.HF3FS: _3FS,
    StorageType.VCNS_HF3FS: (
        *_3FS,
        SpecField(
            "remote_host",
            "Remote host",
            is_required=True,
            help="Host of the 3FS service behind the mount; a check connects to it.",
            example="10.0.0.7",
        ),
        SpecField("remote_port", "Remote port", 0, is_required=True, low=1, high=65_535, example="9000"),
        SpecField(
            "meta_storage_uri",
            "Metadata storage",
            is_required=True,
            is_secret=True,
            help="URI of the metadata of the 3FS, handed to engines.",
            example="redis://10.0.0.8:6379/0",
        ),
    ),
    StorageType.MOONCAKE: (
        SpecField(
            "local_hostname",
            "Local host name",
            is_required=True,
            help="Address that clients of the store give for themselves.",
            example="localhost",
        ),
        SpecField(
            "metadata_connstring",
            "Metadata server",
            is_required=True,
            is_locating=True,
            is_secret=True,
            help="Where clients of the store find each other.",
            example="http://localhost:8080/metadata",
        ),
        SpecField(
            "protocol",
            "Protocol",
            is_required=True,
            choices=(Choice("tcp", "TCP"), Choice("rdma", "RDMA")),
            example="tcp",
        ),
        SpecField(
            "rdma_device",
            "RDMA device",
            help="Required where the protocol is RDMA.",
            example="mlx5_0",
        ),
        SpecField(
            "master_service_entry",
            "Master",
            is_required=True,
            is_locating=True,
            help="Address of the mooncake master.",
            example="localhost:50051",
        ),
        SpecField(
            "master_http_entry",
            "Master's HTTP address",
            is_rest_only=True,
            help="Where the master answers /health and /metrics. Empty: the master's host, port 9003.",
            example="localhost:9003",
        ),
    ),
    StorageType.TAIR_MEMPOOL: (
        SpecField(
            "domain",
            "Agents",
            is_required=True,
            is_locating=True,
            help="host:port of the pool's agents, separated by commas, or one name:port for all of them.",
            example="10.0.0.1:7800,10.0.0.2:7800",
        ),
        SpecField(
            "timeout",
            "Time limit",
            0,
            high=600_000,
            unit="ms",
            help="Of one call to an agent that moves no bytes; 0 = 1000.",
        ),
        SpecField(
            "enable_vipserver", "VIPServer", False, help="Handed to engines that look up the pool there."
        ),
        SpecField(
            "service_discovery_url",
            "Discovery URL",
            is_secret=True,
            help="Answers GET with a JSON list of the agents' host:port, and goes before Agents; engines are"
            " told what Agents says.",
            example="http://discovery.local/pools/a",
        ),
        SpecField(
            "media_type",
            "Medium",
            0,
            help="What the agents' memory is; written into the URIs of blocks.",
            choices=tuple(Choice(number, medium) for number, medium in MEDIA_TYPES.items()),
        ),
    ),
    StorageType.DUMMY: (_ROOT_PATH, _KEYS_PER_FILE),
}

LOCATING_FIELDS = frozenset(
    field.name for fields in SPEC_FIELDS.values() for field in fields if field.is_locating
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
    if kind is StorageType.TAIR_MEMPOOL:
        _check_agents(spec)
    return spec


def _check_agents(spec: Mapping[str, Any]) -> None:
    try:
        split_domain(spec["domain"])
    except ValueError as error:
        raise invalid("spec.domain", str(error)) from error
    url = spec["service_discovery_url"]
    if url and not re.fullmatch(r"https?://[^/\s]+(/\S*)?", url):
        raise invalid("spec.service_discovery_url", "must be an http or https URL")


def spec_shown(kind: StorageType, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec for whoever may look at storages: passwords in URLs are hidden."""
    secret = {field.name for field in SPEC_FIELDS[kind] if field.is_secret}
    return {name: without_password(value) if name in secret else value for name, value in spec.items()}


def spec_kept(kind: StorageType, given: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
    """The spec that a change means: a member sent back as it was shown keeps its hidden password."""
    shown = spec_shown(kind, stored)
    return {
        name: stored[name] if name in stored and value == shown[name] else value
        for name, value in given.items()
    }


def spec_beyond_protocol(kind: StorageType, stored: Mapping[str, Any]) -> dict[str, Any]:
    """The members that a spec which came over the protocol says nothing about."""
    names = {field.name for field in SPEC_FIELDS[kind] if field.is_rest_only}
    return {name: value for name, value in stored.items() if name in names}


def _spec_value(spec_field: SpecField, value: Any) -> str | int | bool:
    name = f"spec.{spec_field.name}"
    if value is None:
        value = spec_field.default
    if isinstance(spec_field.default, bool):
        if not isinstance(value, bool):
            raise invalid(name, "must be true or false")
        return value
    if isinstance(spec_field.default, int):
        return _chosen(name, number(name, value, spec_field.low, spec_field.high), spec_field.choices)
    given = text(name, value, is_required=spec_field.is_required)
    if spec_field.is_path:
        given = re.sub("/+", "/", given)
        _check_root(name, given)
    return _chosen(name, given, spec_field.choices)


_Value = TypeVar("_Value", str, int)


def _chosen(name: str, value: _Value, choices: Sequence[Choice]) -> _Value:
    allowed = [choice.value for choice in choices]
    if allowed and value not in allowed:
        raise invalid(name, f"must be one of {', '.join(map(str, allowed))}")
    return value


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
