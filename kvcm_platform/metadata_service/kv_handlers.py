"""The key-value form: MetaService of package kv_meta, and `kvcm.v1.KvMeta` for what that one lacks."""

from __future__ import annotations

from functools import partial
from typing import Any

from kvcm_platform.core.errors import CODES, Code, invalid
from kvcm_platform.core.metadata import MetadataService
from kvcm_platform.core.registry import VALUE_DTYPE, VALUE_MODEL, VALUE_SPEC
from kvcm_platform.core.values import value_bytes_of
from kvcm_platform.index.codec import start_locations
from kvcm_platform.index.registry_mirror import RegistryMirror
from kvcm_platform.pb import admin_service_pb2 as admin_pb
from kvcm_platform.pb import kv_meta_service_pb2 as pb
from kvcm_platform.pb import kvcm_v1_pb2 as v1

from . import mapping
from .registration import Registrar
from .rpc import Rpc

KV_SERVICE = pb.DESCRIPTOR.services_by_name["MetaService"].full_name
V1_SERVICE = v1.DESCRIPTOR.services_by_name["KvMeta"].full_name
_CODES = {
    CODES[Code.DUPLICATE].wire: CODES[Code.INVALID_ARGUMENT].wire,
    CODES[Code.NOT_LEADER].wire: CODES[Code.NOT_READY].wire,
}
"""The package has neither DUPLICATE_ENTITY nor SERVER_NOT_LEADER."""


class KvHandlers:
    """`value_bytes` is the size of values where a registration gives none."""

    def __init__(
        self, service: MetadataService, mirror: RegistryMirror, registrar: Registrar, value_bytes: int
    ) -> None:
        self._service = service
        self._mirror = mirror
        self._registrar = registrar
        self._value_bytes = value_bytes

    def table(self) -> list[Rpc]:
        base = partial(Rpc, service=KV_SERVICE, http_prefix="/api/kv/", fact_prefix="Kv", codes=_CODES)
        more = partial(Rpc, service=V1_SERVICE, http_prefix="/api/kv/v1/", fact_prefix="Kv", codes=_CODES)
        return [
            base("RegisterInstance", pb.RegisterInstanceRequest, pb.RegisterInstanceResponse, self._register),
            base("GetInstanceInfo", pb.GetInstanceInfoRequest, pb.GetInstanceInfoResponse, self._info),
            base("Get", pb.GetRequest, pb.GetResponse, self._get, timed="read"),
            base("PutStart", pb.PutStartRequest, pb.PutStartResponse, self._put_start, timed="write"),
            base("PutFinish", pb.PutFinishRequest, pb.CommonResponse, self._put_finish, timed="write"),
            base("Remove", pb.RemoveRequest, pb.CommonResponse, self._remove),
            base("Trim", pb.TrimRequest, pb.CommonResponse, self._trim),
            more("Get", v1.GetRequest, v1.GetResponse, self._get_with_mask, timed="read"),
            more("PutStart", v1.PutStartRequest, v1.PutStartResponse, self._put_start_sized, timed="write"),
            more(
                "PutFinish", v1.PutFinishRequest, v1.PutFinishResponse, self._put_finish_masked, timed="write"
            ),
        ]

    async def _register(self, request: pb.RegisterInstanceRequest, request_id: str) -> bytes:
        size = value_bytes_of(request.user_data)
        if size is None:
            known = await self._mirror.instance(request.instance_id)
            is_one = known is not None and known.has_values
            size = known.location_spec_infos[0].size if known and is_one else self._value_bytes
        instance = await self._registrar.register(
            admin_pb.RegisterInstanceRequest(
                trace_id=request.trace_id,
                instance_group=request.instance_group,
                instance_id=request.instance_id,
                block_size=1,
                location_spec_infos=[admin_pb.LocationSpecInfo(name=VALUE_SPEC, size=size)],
                model_deployment=admin_pb.ModelDeployment(
                    model_name=VALUE_MODEL, dtype=VALUE_DTYPE, user_data=request.user_data
                ),
            )
        )
        configs = self._registrar.storage_configs(instance)
        return mapping.ok_head(request_id) + _serialized(pb.RegisterInstanceResponse(storage_configs=configs))

    async def _info(self, request: pb.GetInstanceInfoRequest, request_id: str) -> bytes:
        instance = await self._service.value_instance(request.instance_id)
        info = pb.InstanceInfo(
            quota_group_name=self._registrar.quota_group(instance),
            instance_group_name=instance.group,
            instance_id=instance.instance_id,
        )
        answer = pb.GetInstanceInfoResponse(instance_group=instance.group, instance_info=info)
        return mapping.ok_head(request_id) + _serialized(answer)

    async def _get(self, request: pb.GetRequest, request_id: str) -> bytes:
        # `metas` describes the request for logs of the reference server; nothing is selected by it.
        found, _ = await self._service.get_values(request.instance_id, request.keys, request.query_type)
        return mapping.ok_head(request_id) + b"".join(found)

    async def _get_with_mask(self, request: v1.GetRequest, request_id: str) -> bytes:
        found, hits = await self._service.get_values(request.instance_id, request.keys)
        return mapping.ok_head(request_id) + b"".join(found) + _serialized(v1.GetResponse(hit_mask=hits))

    async def _put_start(self, request: pb.PutStartRequest, request_id: str) -> bytes:
        started = await self._service.put_start(
            request.instance_id, request.keys, (), request.write_timeout_seconds
        )
        answer = pb.PutStartResponse(
            write_session_id=started.session_id, key_mask=pb.KeyMask(values=started.mask)
        )
        return mapping.ok_head(request_id) + _serialized(answer) + start_locations(started.locations)

    async def _put_start_sized(self, request: v1.PutStartRequest, request_id: str) -> bytes:
        started = await self._service.put_start(
            request.instance_id, request.keys, request.value_sizes, request.write_timeout_seconds
        )
        answer = v1.PutStartResponse(write_session_id=started.session_id, key_mask=started.mask)
        return mapping.ok_head(request_id) + _serialized(answer) + start_locations(started.locations)

    async def _put_finish(self, request: pb.PutFinishRequest, request_id: str) -> bytes:
        uris = []
        for location in request.locations:
            if len(location.location_specs) != 1:
                raise invalid("locations", "each must have the one part of its value")
            uris.append(location.location_specs[0].uri)
        await self._service.put_finish_listed(request.instance_id, request.write_session_id, uris)
        return mapping.ok_head(request_id)

    async def _put_finish_masked(self, request: v1.PutFinishRequest, request_id: str) -> bytes:
        await self._service.put_finish(
            request.instance_id, request.write_session_id, list(request.success_mask)
        )
        return mapping.ok_head(request_id)

    async def _remove(self, request: pb.RemoveRequest, request_id: str) -> bytes:
        await self._service.remove_values(request.instance_id, request.keys)
        return mapping.ok_head(request_id)

    async def _trim(self, request: pb.TrimRequest, request_id: str) -> bytes:
        await self._service.trim_values(
            request.instance_id, request.strategy, request.begin_timestamp, request.end_timestamp
        )
        return mapping.ok_head(request_id)


def _serialized(message: Any) -> bytes:
    return bytes(message.SerializeToString())
