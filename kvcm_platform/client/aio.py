"""The asynchronous client."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar

import grpc

from kvcm_platform.pb.meta_service_pb2_grpc import MetaServiceStub

from . import calls
from .calls import Call
from .channel import Attempts, Connection

P = ParamSpec("P")
T = TypeVar("T")


def client_method(build: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], Awaitable[T]]:
    """A client method with the arguments of `build` that makes the call it describes."""

    @functools.wraps(build)
    async def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.run(build(*args, **kwargs))

    return method


class Client:
    """One connection, and the stubs of the services it speaks to (`STUBS`, by `Call.service`).

    Raises `KvcmError` where the server refuses and `TransportError` where it does not answer.
    It is safe to share among the tasks of its loop.
    """

    STUBS: ClassVar[Mapping[str, Callable[..., Any]]]

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        if connection.credentials is None:
            self._channel = grpc.aio.insecure_channel(connection.endpoint, options=connection.options)
        else:
            self._channel = grpc.aio.secure_channel(
                connection.endpoint, connection.credentials, options=connection.options
            )
        self._stubs = {name: stub(self._channel) for name, stub in self.STUBS.items()}

    async def run(self, call: Call[T], *, timeout_seconds: float | None = None) -> T:
        """Make a call that a builder of `calls` describes, within a deadline of its own if given."""
        rpc = getattr(self._stubs[call.service], call.rpc)
        attempts = Attempts(call, self.connection, timeout_seconds)
        while True:
            try:
                response = await rpc(call.request, **attempts.options())
            except grpc.RpcError as error:
                await asyncio.sleep(attempts.delay_after(error))
            else:
                return call.result(response)

    async def close(self) -> None:
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class MetadataClient(Client):
    """Calls on the metadata service from an event loop."""

    STUBS: ClassVar[Mapping[str, Callable[..., Any]]] = {"meta": MetaServiceStub}

    register_instance = client_method(calls.register_instance)
    get_instance_info = client_method(calls.get_instance_info)
    get_cache_location = client_method(calls.get_cache_location)
    get_cache_locations_by_backend = client_method(calls.get_cache_locations_by_backend)
    get_cache_location_len = client_method(calls.get_cache_location_len)
    get_cache_meta = client_method(calls.get_cache_meta)
    start_write = client_method(calls.start_write)
    finish_write = client_method(calls.finish_write)
    remove = client_method(calls.remove)
    trim = client_method(calls.trim)
    get_cluster_info = client_method(calls.get_cluster_info)
