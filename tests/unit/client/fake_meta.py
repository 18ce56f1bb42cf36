"""A metadata service in one class: enough of the protocol to test its client against.

Blocks are in a dictionary, locations are slots of files below `root`. Faults are set by tests.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from kvcm_platform.pb import meta_service_pb2 as pb
from kvcm_platform.pb.meta_service_pb2_grpc import MetaServiceServicer, add_MetaServiceServicer_to_server


class FakeMeta(MetaServiceServicer):
    def __init__(self, root: Path, *, slots_per_file: int = 4) -> None:
        self.root = root
        self.slots_per_file = slots_per_file
        self.instances: dict[str, pb.RegisterInstanceRequest] = {}
        self.serving: dict[tuple[str, int], pb.CacheLocation] = {}
        self.sessions: dict[str, list[tuple[str, int, pb.CacheLocation]]] = {}
        self.calls: Counter[str] = Counter()
        self.last: dict[str, Any] = {}
        self.metadata: dict[str, str] = {}
        self.unavailable_next = 0
        self.max_blocks = 1 << 60
        self.read_delay_seconds = 0.0
        self.not_ready_next = 0
        self.abort_with: grpc.StatusCode | None = None
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()

    def _enter(self, name: str, request: Any, context: grpc.ServicerContext) -> None:
        with self._lock:
            self.calls[name] += 1
            self.last[name] = request
            self.metadata = dict(context.invocation_metadata())
            if self.abort_with is not None:
                context.abort(self.abort_with, "no")
            if self.unavailable_next:
                self.unavailable_next -= 1
                context.abort(grpc.StatusCode.UNAVAILABLE, "draining")

    def RegisterInstance(self, request, context):  # noqa: N802 - the protocol's name
        self._enter("RegisterInstance", request, context)
        self.instances[request.instance_id] = request
        return pb.RegisterInstanceResponse(
            header=ok(),
            storage_configs='[{"type":"file","is_available":true,"global_unique_name":"nfs_01",'
            '"storage_spec":{"root_path":"/x/","key_count_per_file":4}}]',
        )

    def GetInstanceInfo(self, request, context):  # noqa: N802
        self._enter("GetInstanceInfo", request, context)
        known = self.instances.get(request.instance_id)
        if known is None:
            return pb.GetInstanceInfoResponse(header=refusal(pb.INSTANCE_NOT_EXIST, "no such instance"))
        return pb.GetInstanceInfoResponse(
            header=ok(),
            instance_group=known.instance_group,
            instance_info=pb.InstanceInfo(
                instance_id=known.instance_id,
                block_size=known.block_size,
                location_spec_infos=known.location_spec_infos,
                location_spec_groups=known.location_spec_groups,
                model_deployment=known.model_deployment,
            ),
        )

    def GetCacheLocation(self, request, context):  # noqa: N802
        self._enter("GetCacheLocation", request, context)
        if self.read_delay_seconds:
            threading.Event().wait(self.read_delay_seconds)
        if self.not_ready_next:
            self.not_ready_next -= 1
            return pb.GetCacheLocationResponse(header=refusal(pb.SERVICE_NOT_READY, "no index"))
        skip = request.block_mask.offset
        hits = [self.serving.get((request.instance_id, key)) for key in request.block_keys[skip:]]
        if request.query_type == pb.QT_PREFIX_MATCH:
            found = list(itertools.takewhile(lambda hit: hit is not None, hits))
        else:
            found = [hit or pb.CacheLocation(spec_size=1) for hit in hits]
        return pb.GetCacheLocationResponse(header=ok(), locations=found)

    def GetCacheLocationLen(self, request, context):  # noqa: N802
        self._enter("GetCacheLocationLen", request, context)
        hits = itertools.takewhile(lambda k: (request.instance_id, k) in self.serving, request.block_keys)
        return pb.GetCacheLocationLenResponse(header=ok(), cache_location_len=len(list(hits)))

    def GetCacheMeta(self, request, context):  # noqa: N802
        self._enter("GetCacheMeta", request, context)
        answer = pb.GetCacheMetaResponse(header=ok())
        for key in request.block_keys:
            location = self.serving.get((request.instance_id, key))
            answer.locations.append(location or pb.CacheLocation())
            answer.metas.append(
                '{"id":"a1","status":"CLS_SERVING"}' if location else '{"id":"","status":"CLS_NOT_FOUND"}'
            )
        return answer

    def StartWriteCache(self, request, context):  # noqa: N802
        self._enter("StartWriteCache", request, context)
        with self._lock:
            instance = self.instances.get(request.instance_id)
            if instance is None:
                return pb.StartWriteCacheResponse(header=refusal(pb.INSTANCE_NOT_EXIST, "no such instance"))
            there = [(request.instance_id, key) in self.serving for key in request.block_keys]
            missing = [k for k, is_there in zip(request.block_keys, there, strict=True) if not is_there]
            if len(self.serving) + len(missing) > self.max_blocks:
                return pb.StartWriteCacheResponse(header=refusal(pb.REACH_MAX_ENTITY_CAPACITY, "quota"))
            session = f"s{next(self._numbers)}"
            answer = pb.StartWriteCacheResponse(header=ok(), write_session_id=session)
            for index, _ in enumerate(missing):
                location = answer.locations.add(type=pb.ST_NFS, spec_size=1)
                for spec in instance.location_spec_infos:
                    file, slot = divmod(index, self.slots_per_file)
                    path = f"{self.root}/{request.instance_id}/{spec.name}/{session}_{file}"
                    location.location_specs.add(
                        name=spec.name, uri=f"file://nfs_01{path}?blkid={slot}&size={spec.size}"
                    )
            self.sessions[session] = [
                (request.instance_id, key, location)
                for key, location in zip(missing, answer.locations, strict=True)
            ]
            prefix = len(list(itertools.takewhile(bool, there)))
            if prefix == sum(there):
                answer.block_mask.offset = prefix
            else:
                answer.block_mask.bool_masks.values.extend(there)
            return answer

    def FinishWriteCache(self, request, context):  # noqa: N802
        self._enter("FinishWriteCache", request, context)
        with self._lock:
            session = self.sessions.pop(request.write_session_id, None)
            if session is None:
                return pb.CommonResponse(
                    header=refusal(pb.INTERNAL_ERROR, "write_session_id has been deleted")
                )
            if request.success_blocks.WhichOneof("info") == "offset":
                good = [index < request.success_blocks.offset for index in range(len(session))]
            else:
                good = list(request.success_blocks.bool_masks.values)
            if len(good) != len(session):
                return pb.CommonResponse(header=refusal(pb.INVALID_ARGUMENT, "success_blocks: length"))
            for (instance_id, key, location), is_good in zip(session, good, strict=True):
                if is_good:
                    self.serving[instance_id, key] = location
            return pb.CommonResponse(header=ok())

    def RemoveCache(self, request, context):  # noqa: N802
        self._enter("RemoveCache", request, context)
        for key in request.block_keys:
            self.serving.pop((request.instance_id, key), None)
        return pb.CommonResponse(header=ok())

    def TrimCache(self, request, context):  # noqa: N802
        self._enter("TrimCache", request, context)
        self.serving.clear()
        return pb.CommonResponse(header=ok())

    def GetClusterInfo(self, request, context):  # noqa: N802
        self._enter("GetClusterInfo", request, context)
        answer = pb.GetClusterInfoResponse(header=ok(), self_node_id="n1", leader_node_id="n2")
        answer.leader_endpoint.host = "10.0.0.2"
        answer.leader_endpoint.meta_rpc_port = 6381
        return answer


def ok() -> pb.CommonResponseHeader:
    return pb.CommonResponseHeader(status=pb.Status(code=pb.OK))


def refusal(code: int, message: str) -> pb.CommonResponseHeader:
    return pb.CommonResponseHeader(status=pb.Status(code=code, message=message))


@contextmanager
def serve(service: FakeMeta, port: int = 0) -> Iterator[int]:
    """The service on a loopback port; stops at once at the end, like a killed process."""
    server = grpc.server(ThreadPoolExecutor(16))
    add_MetaServiceServicer_to_server(service, server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    try:
        yield bound
    finally:
        server.stop(None).wait()
