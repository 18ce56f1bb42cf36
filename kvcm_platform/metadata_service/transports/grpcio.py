"""The data plane over grpcio: complete, the oracle of every other transport, home of streaming services.

Calls of control's services on the same port are passed to it as bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from grpc_reflection.v1alpha import reflection

from kvcm_platform.core.errors import Code, DomainError

from ..access import ANYBODY, Caller
from ..control_link import INTERNAL_KEY, ControlLink
from ..limits import DoorLimits
from ..meta_handlers import MetaHandlers
from ..rpc import DESERIALIZING, Rpc


def server_options(limits: DoorLimits) -> list[tuple[str, int]]:
    """Existing C++ clients ping every 10 s without calls; never answer too_many_pings (WIRE.md 8.5)."""
    return [
        ("grpc.max_receive_message_length", limits.message_bytes),
        ("grpc.max_send_message_length", limits.message_bytes),
        # Between the two it would refuse at random.
        ("grpc.max_metadata_size", limits.header_bytes),
        ("grpc.absolute_max_metadata_size", limits.header_bytes),
        # A backstop: where clients come near it C-core refuses streams that they were allowed (it counts
        # a stream for a while after its end), so the handlers refuse before, by name.
        ("grpc.max_concurrent_streams", 2 * limits.streams),
        ("grpc.so_reuseport", 1),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    ]


def caller_of(context: grpc.aio.ServicerContext) -> Caller:
    metadata = dict(context.invocation_metadata() or ())
    # "ipv4:10.0.0.1:4711", "ipv6:[::1]:4711" (brackets percent-encoded), "unix:…"
    kind, _, rest = context.peer().partition(":")
    host = rest.rpartition(":")[0] if kind.startswith("ipv") else rest
    address = host.replace("%5B", "").replace("%5D", "").strip("[]")
    return Caller(address, str(metadata.get("authorization", "")), str(metadata.get(INTERNAL_KEY, "")))


class Streams:
    """Calls of each connection, which are counted by the peer's address and port."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: dict[str, int] = {}

    def enter(self, peer: str) -> None:
        """Raises TOO_MANY; otherwise `leave` follows."""
        running = self._running.get(peer, 0)
        if running >= self._most:
            raise DomainError(
                Code.TOO_MANY, f"{running} calls are in work on this connection, the most (KVCM_MAX_STREAMS)"
            )
        self._running[peer] = running + 1

    def leave(self, peer: str) -> None:
        left = self._running[peer] - 1
        if left:
            self._running[peer] = left
        else:
            del self._running[peer]


class Malformed:
    """Stands for a request that is no message of its kind."""


MALFORMED = Malformed()


def reader_of(message_class: type[Any]) -> Callable[[bytes], Any]:
    """A deserializer: what it raised would be UNKNOWN to the client, and a traceback a call in the log."""
    parse = message_class.FromString

    def read(data: bytes) -> Any:
        try:
            return parse(data)
        except DecodeError:
            return MALFORMED

    return read


async def refuse_malformed(context: grpc.aio.ServicerContext) -> NoReturn:
    await context.abort(grpc.StatusCode.INTERNAL, DESERIALIZING)
    raise AssertionError("abort raises")


def _unary(rpc: Rpc, handlers: MetaHandlers, streams: Streams) -> grpc.RpcMethodHandler:
    async def serve(request: Any, context: grpc.aio.ServicerContext) -> bytes:
        if request is MALFORMED:
            await refuse_malformed(context)
        if rpc.at_once is not None:
            # It ends before another call can begin, so it counts as none in work.
            caller = ANYBODY if handlers.takes_anybody else caller_of(context)
            answer = handlers.at_once(rpc, request, caller)
            if answer is not None:
                return answer
        peer = context.peer()
        try:
            streams.enter(peer)
            try:
                return await handlers.call(rpc, request, caller_of(context))
            finally:
                streams.leave(peer)
        except DomainError as error:
            await context.abort(grpc.StatusCode[error.forms.grpc], error.message)
            raise AssertionError("abort raises") from error

    return grpc.unary_unary_rpc_method_handler(
        serve, request_deserializer=reader_of(rpc.request), response_serializer=None
    )


def _forward(method: str, control: ControlLink) -> grpc.RpcMethodHandler:
    async def serve(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        try:
            return await control.forward(method, request, caller_of(context), context.time_remaining())
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details() or "")
            raise AssertionError("abort raises") from error

    return grpc.unary_unary_rpc_method_handler(serve)


async def build_server(handlers: MetaHandlers, control: ControlLink, limits: DoorLimits) -> grpc.aio.Server:
    """A server without ports; the caller binds and starts it."""
    server = grpc.aio.server(options=server_options(limits))
    streams = Streams(limits.streams)
    services = {
        service: {rpc.name: _unary(rpc, handlers, streams) for rpc in rpcs}
        for service, rpcs in handlers.services.items()
    }
    for service, methods in control.services.items():
        services[service] = {name: _forward(f"/{service}/{name}", control) for name in methods}
    server.add_generic_rpc_handlers(
        tuple(grpc.method_handlers_generic_handler(*service) for service in services.items())
    )
    health = health_aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    names = (*services, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name)
    for name in names:
        await health.set(name, health_pb2.HealthCheckResponse.SERVING)
    reflection.enable_server_reflection((*names, reflection.SERVICE_NAME), server)
    return server
