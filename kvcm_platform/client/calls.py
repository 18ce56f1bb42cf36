"""Every RPC as a value: its request, and how to read its answer.

The builders of this module are the methods of both clients (`aio.MetadataClient`,
`blocking.BlockingMetadataClient`), so arguments, defaults and results are written once.

Blocks are named by `keys` or by `tokens`; with `tokens` the server computes the keys of the
full blocks. `trace_id` appears in the server's logs and in its request id.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

import orjson

from kvcm_platform.core.registry import LocationSpecGroup, LocationSpecInfo, ModelDeployment
from kvcm_platform.core.storage_configs import StorageDescription, read_storage_configs
from kvcm_platform.core.types import WIRE_STORAGE_TYPE, QueryType, StorageType, TrimStrategy
from kvcm_platform.pb import meta_service_pb2 as pb

from .errors import KvcmError
from .types import (
    BlockMeta,
    ClusterInfo,
    InstanceInfo,
    Locations,
    Mask,
    Registration,
    StartedWrite,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One call to make. `is_safe`: doing it twice is the same as doing it once."""

    rpc: str
    request: Any
    read: Callable[[Any], T]
    is_safe: bool
    service: str = "meta"
    """Which of its client's services it is of."""

    def result(self, response: Any) -> T:
        """The value of an answer. Raises KvcmError if its header does not say OK."""
        status = response.header.status
        if status.code != pb.OK:
            raise KvcmError(_code_name(status.code), status.message)
        return self.read(response)


def register_instance(
    registration: Registration, *, trace_id: str = ""
) -> Call[tuple[StorageDescription, ...]]:
    """Make the instance known. Returns the storages its URIs may name.

    KvcmError: DUPLICATE_ENTITY if the id is taken by another deployment, INVALID_ARGUMENT if the
    group is unknown or a member is missing.
    """
    request = pb.RegisterInstanceRequest(
        trace_id=trace_or_random(trace_id),
        instance_group=registration.instance_group,
        instance_id=registration.instance_id,
        block_size=registration.block_size,
        model_deployment=pb.ModelDeployment(**asdict(registration.model_deployment)),
        location_spec_infos=[
            pb.LocationSpecInfo(name=spec.name, size=spec.size) for spec in registration.location_spec_infos
        ],
        location_spec_groups=[
            pb.LocationSpecGroup(name=group.name, spec_names=group.spec_names)
            for group in registration.location_spec_groups
        ],
    )
    return Call("RegisterInstance", request, read_storages, is_safe=True)


def get_instance_info(instance_id: str, *, trace_id: str = "") -> Call[InstanceInfo]:
    """What is registered under an id. KvcmError: INSTANCE_NOT_EXIST."""
    request = pb.GetInstanceInfoRequest(trace_id=trace_or_random(trace_id), instance_id=instance_id)
    return Call("GetInstanceInfo", request, _read_instance_info, is_safe=True)


def get_cache_location(
    instance_id: str,
    keys: Iterable[int] = (),
    *,
    tokens: Iterable[int] = (),
    query_type: QueryType = QueryType.PREFIX_MATCH,
    mask: Mask | None = None,
    sw_size: int | None = None,
    spec_names: Sequence[str] = (),
    trace_id: str = "",
) -> Call[Locations]:
    """Where the blocks are.

    A prefix match answers the unmasked blocks up to the first missing one; the other query types
    answer one location for each block, placeholders included. `sw_size` (blocks) belongs to
    REVERSE_ROLL_SW_MATCH. `spec_names` keeps only those parts.
    """
    request = pb.GetCacheLocationRequest(
        trace_id=trace_or_random(trace_id),
        instance_id=instance_id,
        query_type=f"QT_{query_type.name}",
        sw_size=-1 if sw_size is None else sw_size,
        location_spec_names=spec_names,
    )
    _name_blocks(request, keys, tokens)
    _set_mask(request.block_mask, mask)
    return Call("GetCacheLocation", request, _read_locations, is_safe=True)


def get_cache_locations_by_backend(
    instance_id: str,
    keys: Iterable[int] = (),
    *,
    tokens: Iterable[int] = (),
    backends: Sequence[StorageType] = (),
    spec_names: Sequence[str] = (),
    trace_id: str = "",
) -> Call[tuple[Locations, ...]]:
    """For each key at most one location on storages of each of these types; without types one of any."""
    request = pb.GetCacheLocationsByBackendRequest(
        trace_id=trace_or_random(trace_id),
        instance_id=instance_id,
        query_type=pb.QT_BATCH_GET,
        location_spec_names=spec_names,
        backend_selectors=[
            pb.BackendSelector(
                backend_type=WIRE_STORAGE_TYPE[kind],  # type: ignore[arg-type]
                strategy=pb.LSS_WEIGHTED_RANDOM,
            )
            for kind in backends
        ],
    )
    _name_blocks(request, keys, tokens)
    return Call("GetCacheLocationsByBackend", request, _read_location_vectors, is_safe=True)


def get_cache_location_len(
    instance_id: str,
    keys: Iterable[int] = (),
    *,
    tokens: Iterable[int] = (),
    query_type: QueryType = QueryType.PREFIX_MATCH,
    sw_size: int | None = None,
    trace_id: str = "",
) -> Call[int]:
    """How many blocks `get_cache_location` would find; cheap enough for schedulers and gateways."""
    request = pb.GetCacheLocationLenRequest(
        trace_id=trace_or_random(trace_id),
        instance_id=instance_id,
        query_type=f"QT_{query_type.name}",
        sw_size=-1 if sw_size is None else sw_size,
    )
    _name_blocks(request, keys, tokens)
    return Call("GetCacheLocationLen", request, lambda r: int(r.cache_location_len), is_safe=True)


def get_cache_meta(
    instance_id: str,
    keys: Iterable[int] = (),
    *,
    tokens: Iterable[int] = (),
    mask: Mask | None = None,
    detail_level: int = 0,
    trace_id: str = "",
) -> Call[tuple[BlockMeta, ...]]:
    """State of each unmasked block, whatever its status; CLS_NOT_FOUND for a missing one."""
    request = pb.GetCacheMetaRequest(
        trace_id=trace_or_random(trace_id), instance_id=instance_id, detail_level=detail_level
    )
    _name_blocks(request, keys, tokens)
    _set_mask(request.block_mask, mask)
    return Call("GetCacheMeta", request, _read_metas, is_safe=True)


def start_write(
    instance_id: str,
    keys: Iterable[int] = (),
    *,
    tokens: Iterable[int] = (),
    spec_group_names: Sequence[str] = (),
    timeout_seconds: int = 0,
    min_replica_count: int = 0,
    trace_id: str = "",
) -> Call[StartedWrite]:
    """Open a write session for the blocks that are not there yet.

    `timeout_seconds`: time until an unfinished session fails, 0 = the server's default.
    `spec_group_names`: one for each key, for blocks that have only some parts.
    KvcmError: REACH_MAX_ENTITY_CAPACITY over a quota, IO_ERROR without a usable storage.
    """
    request = pb.StartWriteCacheRequest(
        trace_id=trace_or_random(trace_id),
        instance_id=instance_id,
        location_spec_group_names=spec_group_names,
        write_timeout_seconds=timeout_seconds,
        min_replica_count=min_replica_count,
    )
    _name_blocks(request, keys, tokens)
    return Call("StartWriteCache", request, _read_started_write, is_safe=False)


def finish_write(instance_id: str, session_id: str, success: Mask, *, trace_id: str = "") -> Call[None]:
    """End a session; `success` is over its locations: true = written, now visible to readers.

    KvcmError: INTERNAL_ERROR if the session is unknown, ended or expired, INVALID_ARGUMENT if the
    mask does not fit; the session then stays open.
    """
    request = pb.FinishWriteCacheRequest(
        trace_id=trace_or_random(trace_id), instance_id=instance_id, write_session_id=session_id
    )
    _set_mask(request.success_blocks, success)
    return Call("FinishWriteCache", request, read_nothing, is_safe=False)


def remove(
    instance_id: str,
    keys: Iterable[int] = (),
    *,
    tokens: Iterable[int] = (),
    keep: Mask | None = None,
    trace_id: str = "",
) -> Call[None]:
    """Remove blocks, but not those that `keep` masks; unknown ones count as removed."""
    request = pb.RemoveCacheRequest(trace_id=trace_or_random(trace_id), instance_id=instance_id)
    _name_blocks(request, keys, tokens)
    if keep is not None:
        _set_mask(request.block_mask, keep)
    return Call("RemoveCache", request, read_nothing, is_safe=False)


def trim(
    instance_id: str,
    strategy: TrimStrategy = TrimStrategy.REMOVE_ALL_CACHE,
    *,
    begin_timestamp: int = 0,
    end_timestamp: int = 0,
    trace_id: str = "",
) -> Call[None]:
    """Remove all blocks of an instance, or those finished in a span of unix seconds (end 0 = now)."""
    request = pb.TrimCacheRequest(
        trace_id=trace_or_random(trace_id),
        instance_id=instance_id,
        strategy=f"TS_{strategy.name}",
        begin_timestamp=begin_timestamp,
        end_timestamp=end_timestamp,
    )
    return Call("TrimCache", request, read_nothing, is_safe=False)


def get_cluster_info(instance_id: str = "", *, trace_id: str = "") -> Call[ClusterInfo]:
    """Who answers. Every node does, at any time: good for polling until a server is ready."""
    request = pb.GetClusterInfoRequest(trace_id=trace_or_random(trace_id), instance_id=instance_id)
    return Call("GetClusterInfo", request, _read_cluster_info, is_safe=True)


def trace_or_random(trace_id: str) -> str:
    return trace_id or secrets.token_hex(8)


def _code_name(code: int) -> str:
    return pb.ErrorCode.Name(code) if code in pb.ErrorCode.values() else f"CODE_{code}"


def _name_blocks(request: Any, keys: Iterable[int], tokens: Iterable[int]) -> None:
    request.block_keys.extend(keys)
    if not request.block_keys:
        request.token_ids.extend(tokens)


def _set_mask(message: pb.BlockMask, mask: Mask | None) -> None:
    """Fill a mask; None is the empty one, which must be present all the same."""
    if mask is None or isinstance(mask, int):
        message.offset = mask or 0
    else:
        message.bool_masks.SetInParent()
        message.bool_masks.values.extend(mask)


def read_nothing(_response: Any) -> None:
    return None


def _read_locations(response: pb.GetCacheLocationResponse) -> Locations:
    return Locations(response.locations)


def _read_location_vectors(response: pb.GetCacheLocationsByBackendResponse) -> tuple[Locations, ...]:
    return tuple(Locations(vector.locations) for vector in response.key_locations)


def read_storages(response: pb.RegisterInstanceResponse) -> tuple[StorageDescription, ...]:
    return read_storage_configs(response.storage_configs)


def _read_instance_info(response: pb.GetInstanceInfoResponse) -> InstanceInfo:
    info = response.instance_info
    model = info.model_deployment
    return InstanceInfo(
        instance_group=response.instance_group,
        instance_id=info.instance_id,
        block_size=info.block_size,
        location_spec_infos=tuple(LocationSpecInfo(s.name, s.size) for s in info.location_spec_infos),
        location_spec_groups=tuple(
            LocationSpecGroup(g.name, tuple(g.spec_names)) for g in info.location_spec_groups
        ),
        model_deployment=ModelDeployment(
            **{field.name: getattr(model, field.name) for field in model.DESCRIPTOR.fields}
        ),
    )


def _read_metas(response: pb.GetCacheMetaResponse) -> tuple[BlockMeta, ...]:
    metas = []
    for location, text in zip(Locations(response.locations), response.metas, strict=True):
        detail = orjson.loads(text)
        metas.append(BlockMeta(location=location, status=detail.get("status", ""), detail=detail))
    return tuple(metas)


def _read_started_write(response: pb.StartWriteCacheResponse) -> StartedWrite:
    locations = Locations(response.locations)
    mask: int | tuple[bool, ...]
    indexes: Sequence[int]
    if response.block_mask.WhichOneof("info") == "bool_masks":
        mask = tuple(response.block_mask.bool_masks.values)
        indexes = tuple(index for index, is_there in enumerate(mask) if not is_there)
    else:
        mask = response.block_mask.offset
        indexes = range(mask, mask + len(locations))
    if len(indexes) != len(locations):
        raise KvcmError("UNKNOWN_ERROR", f"{len(locations)} locations for {len(indexes)} unmasked blocks")
    return StartedWrite(response.write_session_id, mask, locations, indexes)


def _read_cluster_info(response: pb.GetClusterInfoResponse) -> ClusterInfo:
    leader = response.leader_endpoint
    return ClusterInfo(
        self_node_id=response.self_node_id,
        leader_node_id=response.leader_node_id,
        leader_host=leader.host,
        leader_meta_rpc_port=leader.meta_rpc_port,
        leader_meta_http_port=leader.meta_http_port,
    )
