"""AdminService over gRPC, and DebugService where it is enabled."""

from __future__ import annotations

from collections.abc import Iterable

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from apps.control.access import Caller
from apps.control.calls.call import Rpc
from apps.control.dispatcher import Dispatcher
from kvcm_platform.core.errors import DomainError
from kvcm_platform.metadata_service.control_link import FORWARDED_FOR_KEY, INTERNAL_KEY
from kvcm_platform.metadata_service.limits import DoorLimits
from kvcm_platform.metadata_service.transports import grpcio


def _caller(context: grpc.aio.ServicerContext) -> Caller:
    metadata = dict(context.invocation_metadata() or ())
    return Caller(
        address=grpcio.caller_of(context).address,
        authorization=str(metadata.get("authorization", "")),
        internal_token=str(metadata.get(INTERNAL_KEY, "")),
        forwarded_for=str(metadata.get(FORWARDED_FOR_KEY, "")),
    )


def _handler(rpc: Rpc, dispatcher: Dispatcher) -> grpc.RpcMethodHandler:
    async def serve(request: Message | grpcio.Malformed, context: grpc.aio.ServicerContext) -> Message:
        if isinstance(request, grpcio.Malformed):
            await grpcio.refuse_malformed(context)
        try:
            return await dispatcher.call(rpc, request, _caller(context))
        except DomainError as error:
            await context.abort(grpc.StatusCode[error.forms.grpc], error.message)
            raise AssertionError("abort raises") from error

    return grpc.unary_unary_rpc_method_handler(
        serve,
        request_deserializer=grpcio.reader_of(rpc.request_class),
        response_serializer=rpc.response_class.SerializeToString,
    )


async def build_server(dispatcher: Dispatcher, rpcs: Iterable[Rpc], limits: DoorLimits) -> grpc.aio.Server:
    """A server without ports; the caller binds and starts it."""
    # Another control process on the same port is a mistake, not a partner.
    options = [*grpcio.server_options(limits), ("grpc.so_reuseport", 0)]
    server = grpc.aio.server(options=options)
    services: dict[str, dict[str, grpc.RpcMethodHandler]] = {}
    for rpc in rpcs:
        services.setdefault(rpc.service.full_name, {})[rpc.name] = _handler(rpc, dispatcher)
    server.add_generic_rpc_handlers(
        tuple(grpc.method_handlers_generic_handler(*service) for service in services.items())
    )
    health = HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    for name in services:
        await health.set(name, health_pb2.HealthCheckResponse.SERVING)
    reflection.enable_server_reflection((*services, reflection.SERVICE_NAME), server)
    return server
