"""MetaService: one coroutine an RPC, from a parsed request to the bytes of its answer.

Transports only carry: they parse nothing but the frame, and translate `DomainError` through
`MetaHandlers.refusal`. Answers with locations are the header message followed by stored bytes.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import Any

import structlog

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.metadata import MetadataService
from kvcm_platform.core.queries import BackendSelector
from kvcm_platform.index.codec import location_vector, start_locations
from kvcm_platform.index.connection import IndexUnavailable
from kvcm_platform.index.facts import FactsBuffer
from kvcm_platform.index.registry_mirror import RegistryMirror
from kvcm_platform.pb import meta_service_pb2 as pb

from . import mapping
from .access import Caller, Claim, MetaAccess
from .faults import Faults
from .kv_handlers import KvHandlers
from .limits import DoorLimits
from .refusals import SHOWN, RefusalLog
from .registration import Registrar
from .rpc import META_SERVICE, Rpc
from .stand_down import StandDown

log = structlog.get_logger(__name__)
SPAN_SUFFIX = "__kvcm_need_span_tracer"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How other hosts reach this node, for GetClusterInfo."""

    node_id: str
    host: str
    rpc_port: int
    http_port: int


class MetaHandlers:
    def __init__(
        self,
        service: MetadataService,
        mirror: RegistryMirror,
        registrar: Registrar,
        kv: KvHandlers,
        facts: FactsBuffer,
        access: MetaAccess,
        endpoint: Endpoint,
        limits: DoorLimits,
        faults: Faults | None = None,
    ) -> None:
        self._service = service
        self._mirror = mirror
        self._registrar = registrar
        self._facts = facts
        self._access = access
        self._endpoint = endpoint
        self.takes_anybody = access.takes_anybody
        self._limits = limits
        self._running = 0
        self._refusals = RefusalLog()
        self.stand_down = StandDown()
        rpcs = self._table()
        if faults is not None:
            rpcs = [replace(rpc, handle=faults.guarded(rpc.name, rpc.handle), at_once=None) for rpc in rpcs]
        self.rpcs = {rpc.name: rpc for rpc in rpcs}
        self.services: dict[str, list[Rpc]] = {META_SERVICE: rpcs}
        """Every service by its full name; `rpcs` are those of MetaService by theirs."""
        for rpc in kv.table():
            self.services.setdefault(rpc.service, []).append(rpc)

    def _table(self) -> list[Rpc]:
        return [
            Rpc("RegisterInstance", pb.RegisterInstanceRequest, pb.RegisterInstanceResponse, self._register),
            Rpc(
                "GetInstanceInfo", pb.GetInstanceInfoRequest, pb.GetInstanceInfoResponse, self._instance_info
            ),
            Rpc("GetCacheMeta", pb.GetCacheMetaRequest, pb.GetCacheMetaResponse, self._cache_meta),
            Rpc(
                "GetCacheLocation",
                pb.GetCacheLocationRequest,
                pb.GetCacheLocationResponse,
                self._location,
                at_once=self._location_at_once,
                timed="read",
            ),
            Rpc(
                "GetCacheLocationLen",
                pb.GetCacheLocationLenRequest,
                pb.GetCacheLocationLenResponse,
                self._location_len,
                timed="read",
            ),
            Rpc(
                "StartWriteCache",
                pb.StartWriteCacheRequest,
                pb.StartWriteCacheResponse,
                self._start_write,
                timed="write",
            ),
            Rpc(
                "FinishWriteCache",
                pb.FinishWriteCacheRequest,
                pb.CommonResponse,
                self._finish_write,
                timed="write",
            ),
            Rpc("RemoveCache", pb.RemoveCacheRequest, pb.CommonResponse, self._remove),
            Rpc("TrimCache", pb.TrimCacheRequest, pb.CommonResponse, self._trim),
            Rpc(
                "GetClusterInfo",
                pb.GetClusterInfoRequest,
                pb.GetClusterInfoResponse,
                self._cluster_info,
                is_gated=False,
            ),
            Rpc(
                "GetCacheLocationsByBackend",
                pb.GetCacheLocationsByBackendRequest,
                pb.GetCacheLocationsByBackendResponse,
                self._by_backend,
                timed="read",
            ),
            Rpc(
                "GetHostCacheState",
                pb.GetHostCacheStateRequest,
                pb.GetHostCacheStateResponse,
                self._unsupported,
            ),
            Rpc("ReportEvent", pb.ReportEventRequest, pb.ReportEventResponse, self._unsupported),
        ]

    def at_once(self, rpc: Rpc, request: Any, caller: Caller) -> bytes | None:
        """The answer of a call that is to succeed without I/O, with what `call` notes of it.

        None, with nothing done, in every other case: `call` must be asked.
        """
        handle = rpc.at_once
        trace_id = request.trace_id
        if handle is None or trace_id.endswith(SPAN_SUFFIX):
            return None
        begun = time.perf_counter()
        if not self._access.is_free(caller) or self.stand_down.is_set():
            return None
        pieces = handle(request)
        if pieces is None or sum(map(len, pieces)) > self._limits.message_bytes:
            return None
        answer = b"".join((mapping.ok_head(mapping.request_id(trace_id)), *pieces))
        self._facts.rpc(rpc.name, time.perf_counter() - begun, False, rpc.timed, request.instance_id)
        return answer

    async def call(self, rpc: Rpc, request: Any, caller: Caller) -> bytes:
        """Carries out one call. Raises DomainError only where the answer is no message (CODES.grpc != OK)."""
        begun = time.perf_counter()
        request_id = mapping.request_id(request.trace_id)
        failed: DomainError | None = None
        self._running += 1
        try:
            if self._running > self._limits.calls:
                raise DomainError(
                    Code.TOO_MANY, f"{self._limits.calls} calls are in work here, the most (KVCM_MAX_CALLS)"
                )
            claim = await self._access.check(caller)
            if rpc.is_gated:
                self.stand_down.check()
            if claim.groups is not None:
                await self._require(claim, request)
            answer = await rpc.handle(request, request_id)
        except DomainError as error:
            failed = error
        except IndexUnavailable as error:
            failed = DomainError(Code.NOT_READY, f"the index cannot be reached: {error}")
        except Exception:
            log.exception("call failed", rpc=rpc.name, request_id=request_id[-SHOWN:])
            failed = DomainError(Code.INTERNAL, "internal error, see the server's log")
        finally:
            self._running -= 1
        seconds = time.perf_counter() - begun
        if failed is None and rpc.timed:
            self._facts.rpc(rpc.fact_prefix + rpc.name, seconds, False, rpc.timed, request.instance_id)
        else:
            self._facts.rpc(rpc.fact_prefix + rpc.name, seconds, failed is not None)
        if failed is not None:
            self._refusals.note(rpc.name, request_id, failed)
            if failed.forms.grpc != "OK":
                raise failed
            answer = mapping.refused(request_id, failed, rpc.codes)
        if request.trace_id.endswith(SPAN_SUFFIX):
            spans = {"name": rpc.name, "duration_us": round(seconds * 1e6), "children": []}
            # A repeated sub-message is merged by every parser: this adds one member to the header.
            traced = pb.CommonResponseHeader(tracer_result=json.dumps(spans))
            answer += pb.CommonResponse(header=traced).SerializeToString()
        return answer

    async def _require(self, claim: Claim, request: Any) -> None:
        """For a token limited to groups: the group of a registration and of a known instance count."""
        if hasattr(request, "instance_group"):
            claim.require(request.instance_group)
        known = await self._mirror.instance(getattr(request, "instance_id", ""))
        if known is not None:
            claim.require(known.group)

    async def _register(self, request: pb.RegisterInstanceRequest, request_id: str) -> bytes:
        instance = await self._registrar.register(request)
        return pb.RegisterInstanceResponse(
            header=mapping.header(request_id), storage_configs=self._registrar.storage_configs(instance)
        ).SerializeToString()

    async def _instance_info(self, request: pb.GetInstanceInfoRequest, request_id: str) -> bytes:
        entry = await self._service.instance(request.instance_id)
        return pb.GetInstanceInfoResponse(
            header=mapping.header(request_id),
            instance_group=entry.group,
            instance_info=mapping.instance_info(entry, self._registrar.quota_group(entry)),
        ).SerializeToString()

    async def _location(self, request: pb.GetCacheLocationRequest, request_id: str) -> bytes:
        found = await self._service.get_cache_location(
            request.instance_id,
            request.query_type,
            mapping.query_blocks(request),
            mapping.mask(request, "block_mask"),
            request.sw_size,
            request.location_spec_names,
        )
        self._limits.check_answer(found)
        return b"".join((mapping.ok_head(request_id), *found))

    def _location_at_once(self, request: pb.GetCacheLocationRequest) -> list[bytes] | None:
        """A prefix match by keys without more than an offset as its mask: what engines ask most."""
        keys = request.block_keys
        if request.query_type != pb.QT_PREFIX_MATCH or not keys or request.location_spec_names:
            return None
        offset = 0
        if request.HasField("block_mask"):
            mask = request.block_mask
            if mask.WhichOneof("info") != "offset":
                return None
            offset = mask.offset
        return self._service.prefix_at_once(request.instance_id, mapping.raw_keys(keys), offset)

    async def _by_backend(self, request: pb.GetCacheLocationsByBackendRequest, request_id: str) -> bytes:
        found = await self._service.get_cache_locations_by_backend(
            request.instance_id,
            request.query_type,
            mapping.query_blocks(request),
            request.location_spec_names,
            [BackendSelector(one.backend_type, one.strategy) for one in request.backend_selectors],
        )
        self._limits.check_answer([wire for wires in found for wire in wires])
        return mapping.ok_head(request_id) + b"".join(map(location_vector, found))

    async def _location_len(self, request: pb.GetCacheLocationLenRequest, request_id: str) -> bytes:
        length = await self._service.get_cache_location_len(
            request.instance_id, request.query_type, mapping.query_blocks(request), request.sw_size
        )
        return pb.GetCacheLocationLenResponse(
            header=mapping.header(request_id), cache_location_len=length
        ).SerializeToString()

    async def _cache_meta(self, request: pb.GetCacheMetaRequest, request_id: str) -> bytes:
        found = await self._service.get_cache_meta(
            request.instance_id, mapping.blocks(request), mapping.mask(request, "block_mask")
        )
        self._limits.check_answer([meta.location for meta in found])
        metas = [json.dumps({"id": meta.location_id, "status": f"CLS_{meta.status.name}"}) for meta in found]
        head = pb.GetCacheMetaResponse(header=mapping.header(request_id), metas=metas).SerializeToString()
        return head + b"".join(meta.location for meta in found)

    async def _start_write(self, request: pb.StartWriteCacheRequest, request_id: str) -> bytes:
        started = await self._service.start_write(
            request.instance_id,
            mapping.blocks(request),
            request.location_spec_group_names,
            request.write_timeout_seconds,
            request.min_replica_count,
        )
        head = pb.StartWriteCacheResponse(
            header=mapping.header(request_id),
            write_session_id=started.session_id,
            block_mask=mapping.block_mask(started.mask),
        ).SerializeToString()
        return head + start_locations(started.locations)

    async def _finish_write(self, request: pb.FinishWriteCacheRequest, request_id: str) -> bytes:
        await self._service.finish_write(
            request.instance_id, request.write_session_id, mapping.mask(request, "success_blocks")
        )
        return mapping.ok_head(request_id)

    async def _remove(self, request: pb.RemoveCacheRequest, request_id: str) -> bytes:
        await self._service.remove_cache(
            request.instance_id, mapping.blocks(request), mapping.mask(request, "block_mask")
        )
        return mapping.ok_head(request_id)

    async def _trim(self, request: pb.TrimCacheRequest, request_id: str) -> bytes:
        await self._service.trim_cache(
            request.instance_id, request.strategy, request.begin_timestamp, request.end_timestamp
        )
        return mapping.ok_head(request_id)

    async def _cluster_info(self, request: pb.GetClusterInfoRequest, request_id: str) -> bytes:
        """Every node serves: clients that look for a leader are sent to the node they asked."""
        here = self._endpoint
        answer = pb.GetClusterInfoResponse(
            header=mapping.header(request_id), self_node_id=here.node_id, leader_node_id=here.node_id
        )
        leader = answer.leader_endpoint
        leader.node_id, leader.host = here.node_id, here.host
        leader.meta_rpc_port, leader.meta_http_port = here.rpc_port, here.http_port
        return answer.SerializeToString()

    async def _unsupported(self, request: Any, request_id: str) -> bytes:
        raise DomainError(
            Code.UNSUPPORTED, f"{type(request).__name__.removesuffix('Request')} is not supported"
        )
