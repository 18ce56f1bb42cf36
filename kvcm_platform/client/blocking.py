"""The blocking client, for engines and tools without an event loop."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Self, TypeVar

import grpc

from kvcm_platform.pb.meta_service_pb2_grpc import MetaServiceStub

from . import calls
from .calls import Call
from .channel import Attempts, Connection

P = ParamSpec("P")
T = TypeVar("T")


def _method(build: Callable[P, Call[T]]) -> Callable[Concatenate[BlockingMetadataClient, P], T]:
    """A client method with the arguments of `build` that makes the call it describes."""

    @functools.wraps(build)
    def method(self: BlockingMetadataClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(build(*args, **kwargs))

    return method


class BlockingMetadataClient:
    """Calls on the metadata service from any thread; errors as in `MetadataClient`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        if connection.credentials is None:
            self._channel = grpc.insecure_channel(connection.endpoint, options=connection.options)
        else:
            self._channel = grpc.secure_channel(
                connection.endpoint, connection.credentials, options=connection.options
            )
        self._stub = MetaServiceStub(self._channel)  # type: ignore[no-untyped-call]

    def run(self, call: Call[T], *, timeout_seconds: float | None = None) -> T:
        """Make a call that a builder of `calls` describes, within a deadline of its own if given."""
        rpc = getattr(self._stub, call.rpc)
        attempts = Attempts(call, self.connection, timeout_seconds)
        while True:
            try:
                response = rpc(call.request, **attempts.options())
            except grpc.RpcError as error:
                time.sleep(attempts.delay_after(error))
            else:
                return call.result(response)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    register_instance = _method(calls.register_instance)
    get_instance_info = _method(calls.get_instance_info)
    get_cache_location = _method(calls.get_cache_location)
    get_cache_locations_by_backend = _method(calls.get_cache_locations_by_backend)
    get_cache_location_len = _method(calls.get_cache_location_len)
    get_cache_meta = _method(calls.get_cache_meta)
    start_write = _method(calls.start_write)
    finish_write = _method(calls.finish_write)
    remove = _method(calls.remove)
    trim = _method(calls.trim)
    get_cluster_info = _method(calls.get_cluster_info)
