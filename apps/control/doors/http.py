"""AdminService or DebugService over the compatible HTTP (WIRE.md 1.3)."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.message import Message
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from apps.control.access import Caller
from apps.control.calls.call import Rpc
from apps.control.dispatcher import Dispatcher
from kvcm_platform.metadata_service.control_link import FORWARDED_FOR_KEY, INTERNAL_KEY
from kvcm_platform.metadata_service.limits import DoorLimits
from kvcm_platform.metadata_service.transports.http import Bodies, json_endpoint


def _caller(request: Request) -> Caller:
    return Caller(
        address=request.client.host if request.client else "",
        authorization=request.headers.get("authorization", ""),
        internal_token=request.headers.get(INTERNAL_KEY, ""),
        forwarded_for=request.headers.get(FORWARDED_FOR_KEY, ""),
    )


def build_app(dispatcher: Dispatcher, rpcs: Iterable[Rpc], limits: DoorLimits) -> Starlette:
    bodies = Bodies(limits)

    def route(rpc: Rpc) -> Route:
        async def serve(message: Message, request: Request) -> Message:
            return await dispatcher.call(rpc, message, _caller(request))

        endpoint = json_endpoint(rpc.request_class, rpc.response_class, serve, bodies)
        return Route(rpc.http_path, endpoint, methods=["POST"])

    return Starlette(routes=[route(rpc) for rpc in rpcs])
