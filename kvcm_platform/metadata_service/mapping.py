"""Protocol messages to and from the values of `core`."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kvcm_platform.core.errors import DomainError
from kvcm_platform.core.masks import Mask
from kvcm_platform.core.registry import (
    InstanceEntry,
    LocationSpecGroup,
    LocationSpecInfo,
    ModelDeployment,
)
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.pb import meta_service_pb2 as pb

OK = pb.OK
FEW_KEYS = 48
"""Up to here the way over numpy, 1.5 us, costs more than one number after the other."""
_OK_STATUS = b"\x0a\x02\x08\x01\x12"
"""status {code: OK}, then the tag of request_id."""
_DEPLOYMENT = (
    "model_name",
    "dtype",
    "use_mla",
    "tp_size",
    "dp_size",
    "lora_name",
    "pp_size",
    "extra",
    "user_data",
    "use_eagle_pop",
)


def request_id(trace_id: str) -> str:
    return f"{trace_id}_{time.time_ns() // 1000}"


def refused(request_id: str, error: DomainError, codes: Mapping[int, int]) -> bytes:
    """The encoded answer of any refused call: all packages number the header's members alike.

    `codes` replaces those that the package does not have.
    """
    answer = header(request_id, error)
    answer.status.code = codes.get(answer.status.code, answer.status.code)  # type: ignore[assignment]
    return bytes(pb.CommonResponse(header=answer).SerializeToString())


def ok_head(request_id: str) -> bytes:
    """The encoded header member of any answer, with code OK: `header` without its objects."""
    text = request_id.encode()
    inner = _OK_STATUS + _length(len(text)) + text
    return b"\x0a" + _length(len(inner)) + inner


def _length(size: int) -> bytes:
    """A length as protobuf's varint."""
    if size < 0x80:
        return bytes((size,))
    parts = bytearray()
    while size >= 0x80:
        parts.append(size & 0x7F | 0x80)
        size >>= 7
    parts.append(size)
    return bytes(parts)


def header(request_id: str, error: DomainError | None = None, trace: str = "") -> pb.CommonResponseHeader:
    """The response header; without an error its code is OK."""
    code = OK if error is None else error.forms.wire
    message = "" if error is None else error.message
    return pb.CommonResponseHeader(
        status=pb.Status(code=code, message=message),  # type: ignore[arg-type]
        request_id=request_id,
        tracer_result=trace,
    )


def blocks(request: Any) -> Blocks:
    return Blocks(request.block_keys, request.token_ids)


MOST_KEYS = 1 << 16
"""Blocks that a call can name at most, whatever is configured."""


def raw_keys(keys: Sequence[int]) -> bytes:
    """Keys of a message as int64 in the machine's order of bytes."""
    if len(keys) <= FEW_KEYS:
        return struct.pack(f"={len(keys)}q", *keys)
    return np.asarray(keys, dtype=np.int64).tobytes()


def query_blocks(request: Any) -> Blocks:
    """The same for queries: keys as an int64 array, which costs nothing per key."""
    keys = request.block_keys
    if len(keys) > MOST_KEYS:
        return Blocks(keys, request.token_ids)  # to be refused: no work for these
    return Blocks(np.asarray(keys, dtype=np.int64), request.token_ids)  # type: ignore[arg-type]


def mask(message: Any, name: str) -> Mask:
    """A BlockMask; one that is present without a member masks nothing, as an empty flag list."""
    if not message.HasField(name):
        return None
    value = getattr(message, name)
    match value.WhichOneof("info"):
        case "offset":
            return int(value.offset)
        case _:
            # A longer mask says nothing about blocks that a call may name.
            return list(value.bool_masks.values[: MOST_KEYS + 1])


def block_mask(value: int | list[bool]) -> pb.BlockMask:
    if isinstance(value, int):
        return pb.BlockMask(offset=value)
    return pb.BlockMask(bool_masks=pb.BoolMasksType(values=value))


def deployment(message: Any) -> ModelDeployment:
    return ModelDeployment(**{name: getattr(message, name) for name in _DEPLOYMENT})


def registration_identity(request: Any) -> tuple[object, ...]:
    """What `InstanceEntry.identity` gives for an instance registered by this request."""
    return InstanceEntry(
        instance_id=request.instance_id,
        number=0,
        group=request.instance_group,
        group_number=0,
        block_size=request.block_size,
        location_spec_infos=tuple(LocationSpecInfo(s.name, s.size) for s in request.location_spec_infos),
        location_spec_groups=tuple(
            LocationSpecGroup(g.name, tuple(g.spec_names)) for g in request.location_spec_groups
        ),
        model_deployment=deployment(request.model_deployment),
    ).identity()


def instance_info(entry: InstanceEntry, quota_group_name: str) -> pb.InstanceInfo:
    return pb.InstanceInfo(
        quota_group_name=quota_group_name,
        instance_group_name=entry.group,
        instance_id=entry.instance_id,
        block_size=entry.block_size,
        location_spec_infos=[
            pb.LocationSpecInfo(name=spec.name, size=spec.size) for spec in entry.location_spec_infos
        ],
        model_deployment=pb.ModelDeployment(
            **{name: getattr(entry.model_deployment, name) for name in _DEPLOYMENT}
        ),
        location_spec_groups=[
            pb.LocationSpecGroup(name=group.name, spec_names=group.spec_names)
            for group in entry.location_spec_groups
        ],
        default_query_type=entry.default_query_type,  # type: ignore[arg-type]
    )
