"""The registry in Redis: published by the control plane, read by metadata processes.

One field an object, each with the version that wrote it, so that publications may arrive in any
order and be repeated. Writing is blocking (redis-py, in Django processes); decoding is shared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import redis
import structlog

from kvcm_platform.core.reclaim.marks import mark_of
from kvcm_platform.core.registry import (
    Entry,
    GroupEntry,
    InstanceEntry,
    Registry,
    StorageEntry,
    group_from_dict,
    instance_from_dict,
    storage_from_dict,
    to_dict,
)
from kvcm_platform.core.types import WIRE_STORAGE_TYPE

from . import blocking, functions, keyspace
from .address import BadAddress
from .placed import Places, own_url, place_commands

log = structlog.get_logger(__name__)

KIND = {StorageEntry: "storage", GroupEntry: "group", InstanceEntry: "instance"}
_FROM_DICT: dict[str, Callable[[Mapping[str, Any]], Entry]] = {
    "storage": storage_from_dict,
    "group": group_from_dict,
    "instance": instance_from_dict,
}


def field_of(kind: str, name: str) -> str:
    return f"{kind}:{name}"


def _name(entry: Entry) -> str:
    return entry.instance_id if isinstance(entry, InstanceEntry) else entry.name


def ensure_functions(client: redis.Redis) -> None:
    """Loads this version's function library into every master that lacks it."""
    for master in blocking.masters(client):
        try:
            master.fcall(functions.name("kvcm_version"), 0)
        except redis.ResponseError:
            _load_functions(master)


def _load_functions(master: redis.Redis) -> None:
    try:
        master.function_load(functions.source())
    except redis.ResponseError as error:
        if "already exists" not in str(error):  # another process was faster
            raise


def limits_command(group: GroupEntry, version: int) -> tuple[str | int, ...]:
    """Sets a group's limits in its own hash tag (4.1); an older version changes nothing."""
    pairs: list[str | int] = []
    for kind, capacity in group.quota.per_type.items():
        pairs += [WIRE_STORAGE_TYPE[kind], capacity]
    limits = group.limits
    named = {
        "calls": limits.calls_per_second,
        "blocks": limits.blocks_per_second,
        "sessions": limits.write_session_ratio,
    }
    for name, limit in named.items():
        if limit:
            pairs += [name, repr(limit)]
    for name, mark in published_marks(group).items():
        pairs += [name, mark]
    base = keyspace.group(group.number)
    return ("FCALL", functions.name("kvcm_limits"), 1, base, version, group.quota.capacity_bytes, *pairs)


def published_marks(group: GroupEntry) -> dict[str, int]:
    """The least live bytes, of an instance blocks, that set reclaim off, by their fields among the limits."""
    reclaim, quota = group.reclaim, group.quota
    marks = {
        "mark": mark_of(reclaim, quota.capacity_bytes, used_bytes=reclaim.used_bytes),
        "mark:keys": mark_of(reclaim, group.meta_indexer.max_key_count),
    }
    marks |= {
        f"mark:{WIRE_STORAGE_TYPE[kind]}": mark_of(reclaim, own) for kind, own in quota.per_type.items()
    }
    return {name: mark.reached_at for name, mark in marks.items()}


def set_limits(client: redis.Redis, groups: Iterable[GroupEntry], version: int) -> None:
    """Sets limits where each group's index lies.

    A group's own Redis that does not answer is left for `reconcile`: until then the group cannot be
    written to, and all others are none the worse.
    """
    for group in groups:
        url = own_url(group.meta_indexer)
        if not url:
            client.execute_command(*limits_command(group, version))
            continue
        try:
            with blocking.client(url) as own:
                ensure_functions(own)
                own.execute_command(*limits_command(group, version))
        except (redis.RedisError, BadAddress) as error:
            log.warning("limits not set on the group's own Redis", group=group.name, reason=str(error))


def publish(
    client: redis.Redis,
    *,
    version: int,
    changed: Iterable[Entry] = (),
    removed: Iterable[tuple[str, str]] = (),
) -> None:
    """Makes changes visible to the data plane. Limits go first: an entry is never ahead of its limits.

    Raises redis.RedisError when the server cannot be reached; the reconciliation of control
    then publishes again.
    """
    changed = list(changed)
    pairs: list[str | int] = []
    for entry in changed:
        pairs += [
            field_of(KIND[type(entry)], _name(entry)),
            json.dumps(to_dict(entry), separators=(",", ":")),
        ]
    for kind, name in removed:
        pairs += [field_of(kind, name), ""]
    ensure_functions(client)
    for command in place_commands(changed, Places.of(client.hgetall(keyspace.PLACED))):
        client.execute_command(*command)
    set_limits(client, [entry for entry in changed if isinstance(entry, GroupEntry)], version)
    client.fcall(functions.name("kvcm_publish"), 1, keyspace.REGISTRY, version, *pairs)


def read_version(client: redis.Redis) -> int | None:
    """Version of the newest publication; None when there was none (an empty server)."""
    raw = client.get(keyspace.REGISTRY_VERSION)
    return None if raw is None else int(raw)


def decode(field: bytes, value: bytes) -> tuple[str, str, int, Entry | None]:
    """(kind, name, version, entry) of one field; the entry is None where it was removed."""
    kind, _, name = field.decode().partition(":")
    number, _, text = value.partition(b" ")
    return kind, name, int(number), _FROM_DICT[kind](json.loads(text)) if text else None


def assemble(fields: Mapping[bytes, bytes]) -> Registry:
    """A registry from all fields of the hash."""
    parts: dict[str, dict[str, Any]] = {"storage": {}, "group": {}, "instance": {}}
    newest = 0
    for field, value in fields.items():
        kind, name, version, entry = decode(field, value)
        newest = max(newest, version)
        if entry is not None:
            parts[kind][name] = entry
    return Registry(newest, parts["storage"], parts["group"], parts["instance"])


def apply(registry: Registry, field: bytes, value: bytes | None) -> Registry:
    """The registry with one field changed."""
    if value is None:
        return registry
    kind, name, version, entry = decode(field, value)
    parts: dict[str, Mapping[str, Any]] = {
        "storage": registry.storages,
        "group": registry.groups,
        "instance": registry.instances,
    }
    changed = dict(parts[kind])
    if entry is None:
        changed.pop(name, None)
    else:
        changed[name] = entry
    parts[kind] = changed
    newest = max(registry.version, version)
    return Registry(newest, parts["storage"], parts["group"], parts["instance"])


def read(client: redis.Redis) -> Registry:
    return assemble(client.hgetall(keyspace.REGISTRY))
