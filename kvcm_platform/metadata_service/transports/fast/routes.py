"""What the endpoint serves: the tables of the handlers, control's services passed on, the health check."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

import grpc
import structlog
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection

from kvcm_platform.core.errors import DomainError

from ...access import Caller
from ...control_link import ControlLink
from ...meta_handlers import MetaHandlers
from ...rpc import DESERIALIZING, Rpc
from .conversations import Conversation, HealthWatch, Reflection
from .messages import Refused, Status

log = structlog.get_logger(__name__)
HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"]


class Route(Protocol):
    """Carries out one call. `remaining` is its time in seconds, None without a deadline."""

    def __call__(
        self, message: bytes, caller: Caller, remaining: float | None
    ) -> Coroutine[Any, Any, bytes]: ...


def build_routes(handlers: MetaHandlers, control: ControlLink) -> dict[bytes, Route | Conversation]:
    """Routes by the value of `:path`."""
    routes: dict[str, Route] = {
        f"/{service}/{rpc.name}": Unary(rpc, handlers)
        for service, rpcs in handlers.services.items()
        for rpc in rpcs
    }
    for service, methods in control.services.items():
        for name in methods:
            path = f"/{service}/{name}"
            routes[path] = _forward(path, control)
    named = (*handlers.services, *control.services, HEALTH.full_name)
    names = frozenset(("", *named))
    routes[f"/{HEALTH.full_name}/Check"] = _health(names)
    conversations: dict[str, Conversation] = {
        f"/{HEALTH.full_name}/Watch": HealthWatch(names),
        f"/{reflection.SERVICE_NAME}/ServerReflectionInfo": Reflection((*named, reflection.SERVICE_NAME)),
    }
    return {path.encode(): route for path, route in (routes | conversations).items()}


def refusal_of(error: BaseException) -> Refused | None:
    """The gRPC status that a handler's error means; None for one that nobody foresaw."""
    match error:
        case Refused():
            return error
        case DomainError():
            return Refused(grpc.StatusCode[error.forms.grpc].value[0], error.message)
        case grpc.aio.AioRpcError():
            return Refused(error.code().value[0], error.details() or "")
        case asyncio.CancelledError():
            return Refused(Status.CANCELLED, "the call was cancelled")
        case _:
            return None


class Unary:
    """One RPC of MetaService. `at_once` is the way of a call that needs no I/O; it never raises."""

    __slots__ = ("_handlers", "_parse", "_rpc")

    def __init__(self, rpc: Rpc, handlers: MetaHandlers) -> None:
        self._rpc = rpc
        self._handlers = handlers
        self._parse = rpc.request.FromString

    def __call__(self, message: bytes, caller: Caller, remaining: float | None) -> Coroutine[Any, Any, bytes]:
        try:
            request = self._parse(message)
        except DecodeError as error:
            raise Refused(Status.INTERNAL, DESERIALIZING) from error
        return self._handlers.call(self._rpc, request, caller)

    def at_once(self, message: bytes, caller: Caller) -> bytes | None:
        """The answer; None = the usual way decides, about errors too."""
        if self._rpc.at_once is None:
            return None
        try:
            return self._handlers.at_once(self._rpc, self._parse(message), caller)
        except DecodeError:
            return None
        except Exception:
            log.exception("the short way failed", rpc=self._rpc.name)
            return None


def _forward(method: str, control: ControlLink) -> Route:
    def serve(message: bytes, caller: Caller, remaining: float | None) -> Coroutine[Any, Any, bytes]:
        return control.forward(method, message, caller, remaining)

    return serve


def _health(services: frozenset[str]) -> Route:
    serving = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVING)
    answer = bytes(serving.SerializeToString())

    async def serve(message: bytes, caller: Caller, remaining: float | None) -> bytes:
        try:
            service = health_pb2.HealthCheckRequest.FromString(message).service
        except DecodeError as error:
            raise Refused(Status.INTERNAL, DESERIALIZING) from error
        if service not in services:
            raise Refused(Status.NOT_FOUND, "unknown service")
        return answer

    return serve
