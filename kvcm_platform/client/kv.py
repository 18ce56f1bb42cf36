"""Clients of the key-value form: string keys, whole values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from kvcm_platform.pb.kv_meta_service_pb2_grpc import MetaServiceStub
from kvcm_platform.pb.kvcm_v1_pb2_grpc import KvMetaStub

from . import aio, blocking, kv_calls

_STUBS: Mapping[str, Callable[..., Any]] = {kv_calls.KV: MetaServiceStub, kv_calls.V1: KvMetaStub}


class KvClient(aio.Client):
    """Calls from an event loop."""

    STUBS: ClassVar[Mapping[str, Callable[..., Any]]] = _STUBS

    register_instance = aio.client_method(kv_calls.register_instance)
    get_instance_info = aio.client_method(kv_calls.get_instance_info)
    get = aio.client_method(kv_calls.get)
    put_start = aio.client_method(kv_calls.put_start)
    put_finish = aio.client_method(kv_calls.put_finish)
    remove = aio.client_method(kv_calls.remove)
    trim = aio.client_method(kv_calls.trim)


class BlockingKvClient(blocking.BlockingClient):
    """Calls from any thread."""

    STUBS: ClassVar[Mapping[str, Callable[..., Any]]] = _STUBS

    register_instance = blocking.client_method(kv_calls.register_instance)
    get_instance_info = blocking.client_method(kv_calls.get_instance_info)
    get = blocking.client_method(kv_calls.get)
    put_start = blocking.client_method(kv_calls.put_start)
    put_finish = blocking.client_method(kv_calls.put_finish)
    remove = blocking.client_method(kv_calls.remove)
    trim = blocking.client_method(kv_calls.trim)
