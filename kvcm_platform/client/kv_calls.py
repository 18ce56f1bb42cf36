"""Every RPC of the key-value form as a value, as `calls` has those of blocks.

Sizes and masks are what `kvcm.v1` adds to the base protocol, so reads and writes go to that service.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from kvcm_platform.core.storage_configs import StorageDescription
from kvcm_platform.core.types import TrimStrategy
from kvcm_platform.pb import kv_meta_service_pb2 as pb
from kvcm_platform.pb import kvcm_v1_pb2 as v1

from .calls import Call, read_nothing, read_storages, trace_or_random
from .errors import KvcmError
from .types import FoundValues, KvInstanceInfo, Locations, StartedPut

KV, V1 = "kv", "v1"


def register_instance(
    instance_group: str, instance_id: str, *, value_bytes: int | None = None, trace_id: str = ""
) -> Call[tuple[StorageDescription, ...]]:
    """Make an instance of keys and values known. Returns the storages its URIs may name.

    `value_bytes`: size of the largest value, None = the server's default, or what is registered
    already. KvcmError: INVALID_ARGUMENT if the id is taken by another form or size.
    """
    request = pb.RegisterInstanceRequest(
        trace_id=trace_or_random(trace_id),
        instance_group=instance_group,
        instance_id=instance_id,
        user_data="" if value_bytes is None else orjson.dumps({"value_bytes": value_bytes}).decode(),
    )
    return Call("RegisterInstance", request, read_storages, is_safe=True, service=KV)


def get_instance_info(instance_id: str, *, trace_id: str = "") -> Call[KvInstanceInfo]:
    """What is registered under an id. KvcmError: INSTANCE_NOT_EXIST."""
    request = pb.GetInstanceInfoRequest(trace_id=trace_or_random(trace_id), instance_id=instance_id)
    return Call("GetInstanceInfo", request, _read_info, is_safe=True, service=KV)


def get(instance_id: str, keys: Sequence[str], *, trace_id: str = "") -> Call[FoundValues]:
    """Where the values are: one location for each key, a placeholder for a missing one."""
    request = v1.GetRequest(trace_id=trace_or_random(trace_id), instance_id=instance_id, keys=keys)
    return Call("Get", request, _read_found, is_safe=True, service=V1)


def put_start(
    instance_id: str,
    keys: Sequence[str],
    *,
    sizes: Sequence[int] = (),
    timeout_seconds: int = 0,
    trace_id: str = "",
) -> Call[StartedPut]:
    """Open a write session for the values that are not there yet.

    `sizes`: bytes of each value, none = the instance's `value_bytes` each. `timeout_seconds`: time
    until an unfinished session fails, 0 = the server's default. KvcmError: as `start_write`.
    """
    request = v1.PutStartRequest(
        trace_id=trace_or_random(trace_id),
        instance_id=instance_id,
        keys=keys,
        value_sizes=sizes,
        write_timeout_seconds=timeout_seconds,
    )
    return Call("PutStart", request, _read_started, is_safe=False, service=V1)


def put_finish(
    instance_id: str, session_id: str, success: Sequence[bool], *, trace_id: str = ""
) -> Call[None]:
    """End a session; `success` is over its locations: true = written, now visible to readers."""
    request = v1.PutFinishRequest(
        trace_id=trace_or_random(trace_id),
        instance_id=instance_id,
        write_session_id=session_id,
        success_mask=success,
    )
    return Call("PutFinish", request, read_nothing, is_safe=False, service=V1)


def remove(instance_id: str, keys: Sequence[str], *, trace_id: str = "") -> Call[None]:
    """Remove values; unknown keys count as removed."""
    request = pb.RemoveRequest(trace_id=trace_or_random(trace_id), instance_id=instance_id, keys=keys)
    return Call("Remove", request, read_nothing, is_safe=False, service=KV)


def trim(
    instance_id: str,
    strategy: TrimStrategy = TrimStrategy.REMOVE_ALL_CACHE,
    *,
    begin_timestamp: int = 0,
    end_timestamp: int = 0,
    trace_id: str = "",
) -> Call[None]:
    """Remove all values of an instance, or those finished in a span of unix seconds (end 0 = now)."""
    request = pb.TrimRequest(
        trace_id=trace_or_random(trace_id),
        instance_id=instance_id,
        strategy=f"TS_{strategy.name}",
        begin_timestamp=begin_timestamp,
        end_timestamp=end_timestamp,
    )
    return Call("Trim", request, read_nothing, is_safe=False, service=KV)


def _read_info(response: Any) -> KvInstanceInfo:
    return KvInstanceInfo(response.instance_group, response.instance_info.instance_id)


def _read_found(response: Any) -> FoundValues:
    return FoundValues(Locations(response.locations), tuple(response.hit_mask))


def _read_started(response: Any) -> StartedPut:
    locations, mask = Locations(response.locations), tuple(response.key_mask)
    indexes = tuple(index for index, is_there in enumerate(mask) if not is_there)
    if len(indexes) != len(locations):
        raise KvcmError("UNKNOWN_ERROR", f"{len(locations)} locations for {len(indexes)} unmasked keys")
    return StartedPut(response.write_session_id, mask, locations, indexes)
