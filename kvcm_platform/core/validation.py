"""The rules for what operators and engines configure, in one place for every door.

Functions return the accepted form or raise INVALID_ARGUMENT that names the field as REST spells
it; the protocol's door translates the spelling. What WIRE.md A accepts "with a warning" is
returned by `group_warnings`, never raised.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .errors import Code, DomainError, invalid
from .registry import (
    FairnessLimits,
    LocationSpecGroup,
    LocationSpecInfo,
    MetaIndexerSettings,
    ModelDeployment,
    Quota,
    ReclaimSettings,
)
from .types import PreferStrategy, QueryType, StorageType

INT32 = (1 << 31) - 1
INT64 = (1 << 63) - 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_ACCOUNT = re.compile(r"[\w.@+-]{1,150}")
# URIs carry paths without percent-encoding, so what would end the path cannot be part of one.
_BREAKS_URI = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029\ud800-\udfff?#%\\]")
_SEGMENT_BYTES = 255
"""The longest name that file systems take."""


def _number(name: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid(name, "must be a whole number")
    if not low <= value <= high:
        raise invalid(name, f"must be between {low} and {high}, not {value}")
    return value


def _text(name: str, value: Any, *, is_required: bool, at_most: int = 4096) -> str:
    if not isinstance(value, str):
        raise invalid(name, "must be a text")
    if is_required and not value:
        raise invalid(name, "is required")
    if len(value) > at_most:
        raise invalid(name, f"must have at most {at_most} characters")
    return value


def check_object_name(value: str, *, field: str = "name") -> str:
    """A name of a storage or group: the host part of data URIs and a segment of REST paths."""
    if not _NAME.fullmatch(value or ""):
        raise invalid(
            field, "must be 1 to 128 letters, digits, '.', '_' or '-', beginning with a letter or digit"
        )
    return value


def check_account_name(value: str) -> str:
    if not _ACCOUNT.fullmatch(value or ""):
        raise invalid("username", "must be 1 to 150 letters, digits or any of . @ + - _")
    return value


def check_path_part(value: str, *, field: str, may_nest: bool = False) -> str:
    """A name that becomes part of a file's path: it must not lead out of its folder."""
    _text(field, value, is_required=True, at_most=256)
    segments = value.split("/") if may_nest else [value]
    if any(segment in {"", ".", ".."} or "/" in segment for segment in segments):
        raise invalid(
            field, "must not contain empty, '.' or '..' path segments" + ("" if may_nest else " or '/'")
        )
    if _BREAKS_URI.search(value):
        raise invalid(field, "must not contain blanks, control characters or any of ? # % \\")
    if any(len(segment.encode()) > _SEGMENT_BYTES for segment in segments):
        raise invalid(field, f"must not have path segments of more than {_SEGMENT_BYTES} bytes")
    return value


def check_key_part(value: str, *, field: str, may_nest: bool = False) -> str:
    """A name that becomes part of an object's key: of a path, or of one parameter of a URI."""
    check_path_part(value, field=field, may_nest=may_nest)
    if "&" in value:
        raise invalid(field, "must not contain &")
    return value


# Storages ------------------------------------------------------------------------------------


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
        return _number(name, value, spec_field.low, spec_field.high)
    text = _text(name, value, is_required=spec_field.is_required)
    if spec_field.is_path:
        text = re.sub("/+", "/", text)
        _check_root(name, text)
    if spec_field.choices and text not in spec_field.choices:
        raise invalid(name, f"must be one of {', '.join(spec_field.choices)}")
    return text


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
        _number("weight", settings.weight, 0, 1000)
    if settings.capacity_bytes is not None:
        _number("capacity_bytes", settings.capacity_bytes, 0, INT64)
    high, low = settings.high_watermark_ratio, settings.low_watermark_ratio
    for name, ratio in (("high_watermark_ratio", high), ("low_watermark_ratio", low)):
        if ratio is not None and not 0 < ratio <= 1:
            raise invalid(name, f"must be above 0 and at most 1, not {ratio}")
    if low is not None and low >= (1.0 if high is None else high):
        raise invalid("low_watermark_ratio", "must be below high_watermark_ratio")
    _text("maintenance_note", settings.maintenance_note, is_required=False)
    return settings


# Instance groups -----------------------------------------------------------------------------

_INDEX_TYPES = frozenset({"local", "redis", "rocksdb"})
MAX_CANDIDATES = 256


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """What operators set on an instance group."""

    storage_candidates: tuple[str, ...]
    quota: Quota
    prefer_strategy: PreferStrategy = PreferStrategy.PREFER_3FS
    reclaim: ReclaimSettings = field(default_factory=ReclaimSettings)
    meta_indexer: MetaIndexerSettings = field(default_factory=MetaIndexerSettings)
    max_instance_count: int = 0
    global_quota_group_name: str = "default_quota_group"
    user_data: str = ""
    limits: FairnessLimits = field(default_factory=FairnessLimits)


def check_group(settings: GroupSettings) -> GroupSettings:
    """The accepted form of a group's settings: each candidate once, in the order given."""
    if not settings.storage_candidates:
        raise invalid("storage_candidates", "must name at least one storage")
    if len(settings.storage_candidates) > MAX_CANDIDATES:
        raise invalid("storage_candidates", f"must name at most {MAX_CANDIDATES} storages")
    for name in settings.storage_candidates:
        check_object_name(name, field="storage_candidates")
    if settings.prefer_strategy is PreferStrategy.UNSPECIFIED:
        raise invalid("prefer_strategy", "is required")
    _text("global_quota_group_name", settings.global_quota_group_name, is_required=True, at_most=256)
    _text("user_data", settings.user_data, is_required=False, at_most=65_536)
    _number("max_instance_count", settings.max_instance_count, 0, INT64)
    _number("quota.capacity_bytes", settings.quota.capacity_bytes, 0, INT64)
    for kind, capacity in settings.quota.per_type.items():
        _number(f"quota.per_type.{kind}", capacity, 0, INT64)
    _check_reclaim(settings.reclaim)
    _check_limits(settings.limits)
    meta_indexer = _check_meta_indexer(settings.meta_indexer)
    candidates = tuple(dict.fromkeys(settings.storage_candidates))
    return replace(settings, storage_candidates=candidates, meta_indexer=meta_indexer)


def _check_reclaim(reclaim: ReclaimSettings) -> None:
    high, low = reclaim.used_ratio, reclaim.low_watermark_ratio
    # Above 1 is legal: it means "never by this trigger".
    if not math.isfinite(high) or high < 0:
        raise invalid("reclaim.used_ratio", f"must be 0 or more, not {high}")
    if low is not None and (not math.isfinite(low) or low < 0):
        raise invalid("reclaim.low_watermark_ratio", f"must be 0 or more, not {low}")
    if low is not None and high > 0 and low >= high:
        raise invalid("reclaim.low_watermark_ratio", "must be below reclaim.used_ratio")
    _number("reclaim.used_bytes", reclaim.used_bytes, 0, INT64)
    _number("reclaim.step_percentage", reclaim.step_percentage, 0, 100)
    for name in ("trigger_period_seconds", "step_size", "delay_before_delete_ms", "grace_seconds"):
        _number(f"reclaim.{name}", getattr(reclaim, name), 0, INT32)
    _text("reclaim.storage_unique_name", reclaim.storage_unique_name, is_required=False, at_most=128)


def _check_limits(limits: FairnessLimits) -> None:
    _number("limits.calls_per_second", limits.calls_per_second, 0, INT32)
    _number("limits.blocks_per_second", limits.blocks_per_second, 0, INT32)
    if not 0 <= limits.write_session_ratio <= 1:
        raise invalid("limits.write_session_ratio", "must be between 0 and 1")


def _check_meta_indexer(indexer: MetaIndexerSettings) -> MetaIndexerSettings:
    _number("meta_indexer.max_key_count", indexer.max_key_count, 1, INT64)
    _number("meta_indexer.batch_key_size", indexer.batch_key_size, 0, INT64)
    # 0 is what the protocol sends for "unset".
    shards = _number("meta_indexer.mutex_shard_num", indexer.mutex_shard_num, 0, 1 << 20) or 16
    if shards & (shards - 1):
        raise invalid("meta_indexer.mutex_shard_num", f"must be a power of two, not {shards}")
    if indexer.storage_type not in _INDEX_TYPES:
        raise invalid("meta_indexer.storage_type", f"must be one of {', '.join(sorted(_INDEX_TYPES))}")
    policy = indexer.cache_policy
    if policy.type.lower() != "lru":
        raise invalid("meta_indexer.cache_policy.type", "must be lru")
    _number("meta_indexer.cache_policy.capacity_mb", policy.capacity_mb, 0, INT64)
    _number("meta_indexer.cache_policy.shard_bits", policy.shard_bits, -1, 30)
    if not 0 <= policy.high_pri_pool_ratio <= 1:
        raise invalid("meta_indexer.cache_policy.high_pri_pool_ratio", "must be between 0 and 1")
    return replace(indexer, mutex_shard_num=shards)


def group_warnings(settings: GroupSettings, known_storages: Collection[str]) -> list[str]:
    """What is accepted but probably not meant (WIRE.md A, leniency); one sentence each."""
    found = [
        f"storage_candidates: storage {name} does not exist yet"
        for name in settings.storage_candidates
        if name not in known_storages
    ]
    preferred = settings.reclaim.storage_unique_name
    if preferred and preferred not in known_storages:
        found.append(f"reclaim.storage_unique_name: storage {preferred} does not exist")
    capacity = settings.quota.capacity_bytes
    if settings.reclaim.used_bytes > capacity:
        found.append("reclaim.used_bytes: is above the quota, so it never triggers")
    found += [
        f"quota.per_type.{kind}: is above the quota of the group"
        for kind, limit in settings.quota.per_type.items()
        if limit > capacity
    ]
    return found


def require_version(*, stored: int, given: int | None) -> None:
    """Raise CONFLICT unless `given` is the stored version; None opts out of the check."""
    if given is not None and given != stored:
        raise DomainError(
            Code.CONFLICT,
            f"version: the stored version is {stored}, the change was made for {given}",
            field="version",
        )


MAX_VERSION = 1 << 62
"""Far enough from the database's largest number that one more always fits."""


def next_version(*, stored: int, given: int | None) -> int:
    """The version an update writes: the given one, which must be higher, or one more."""
    if given is None:
        return stored + 1
    if not stored < given <= MAX_VERSION:
        raise invalid(
            "version", f"must be greater than the stored version {stored} and at most {MAX_VERSION}"
        )
    return given


# Instances -----------------------------------------------------------------------------------

MAX_SPECS = 4096
MAX_SPEC_GROUPS = 127
"""Records keep the number of a block's spec group in one byte, 0 for all specs."""
MAX_BLOCK_BYTES = (1 << 48) - 1
"""Records keep the size of a block, all its specs together, in six bytes."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What an engine says of itself when it registers."""

    instance_group: str
    instance_id: str
    block_size: int
    location_spec_infos: tuple[LocationSpecInfo, ...]
    location_spec_groups: tuple[LocationSpecGroup, ...]
    model_deployment: ModelDeployment
    default_query_type: int = 0


def check_registration(registration: Registration) -> Registration:
    """Accept a registration, or raise INVALID_ARGUMENT with the field at fault."""
    _text("instance_group", registration.instance_group, is_required=True, at_most=128)
    check_key_part(registration.instance_id, field="instance_id", may_nest=True)
    _number("block_size", registration.block_size, 1, INT32)
    _text("model_deployment.model_name", registration.model_deployment.model_name, is_required=True)
    _text("model_deployment.dtype", registration.model_deployment.dtype, is_required=True)
    _check_specs(registration.location_spec_infos, registration.location_spec_groups)
    if registration.default_query_type not in set(QueryType):
        raise invalid("default_query_type", "is not a query type")
    return registration


def _check_specs(infos: Sequence[LocationSpecInfo], groups: Sequence[LocationSpecGroup]) -> None:
    if not infos:
        raise invalid("location_spec_infos", "must have at least one entry")
    if len(infos) > MAX_SPECS:
        raise invalid("location_spec_infos", f"must have at most {MAX_SPECS} entries")
    names: set[str] = set()
    for info in infos:
        check_key_part(info.name, field="location_spec_infos.name")
        _number("location_spec_infos.size", info.size, 1, MAX_BLOCK_BYTES)
        if info.name in names:
            raise invalid("location_spec_infos", f"names {info.name} twice")
        names.add(info.name)
    if sum(info.size for info in infos) > MAX_BLOCK_BYTES:
        raise invalid("location_spec_infos.size", f"must be at most {MAX_BLOCK_BYTES} in total")
    if len(groups) > MAX_SPEC_GROUPS:
        raise invalid("location_spec_groups", f"must have at most {MAX_SPEC_GROUPS} entries")
    group_names = [group.name for group in groups]
    if "" in group_names or len(set(group_names)) < len(group_names):
        raise invalid("location_spec_groups", "every group must have a name of its own")
    for group in groups:
        if not group.spec_names or len(set(group.spec_names)) < len(group.spec_names):
            raise invalid(
                "location_spec_groups", f"group {group.name} must name at least one spec, each once"
            )
        unknown = sorted(set(group.spec_names) - names)
        if unknown:
            raise invalid(
                "location_spec_groups", f"group {group.name} names unknown specs: {', '.join(unknown)}"
            )
