"""The way from a metadata process to `control`: new registrations and forwarded AdminService calls."""

from __future__ import annotations

import grpc

from kvcm_platform.core.errors import CODES, Code, DomainError
from kvcm_platform.pb import admin_service_pb2 as admin_pb
from kvcm_platform.pb import debug_service_pb2 as debug_pb
from kvcm_platform.pb import kvcm_v1_pb2 as v1_pb

from .access import Caller

_ADMIN = admin_pb.DESCRIPTOR.services_by_name["AdminService"]
_DEBUG = debug_pb.DESCRIPTOR.services_by_name["DebugService"]
_MIGRATIONS = v1_pb.DESCRIPTOR.services_by_name["Migrations"]
_OPTIMIZER = v1_pb.DESCRIPTOR.services_by_name["OptimizerService"]
ADMIN_SERVICE = _ADMIN.full_name
CALL_SECONDS = 10.0
INTERNAL_KEY = "x-kvcm-internal"
FORWARDED_FOR_KEY = "x-kvcm-forwarded-for"
_BY_WIRE = {forms.wire: code for code, forms in reversed(CODES.items())}


class ControlLink:
    """One channel to control. Calls are bounded in time; an unreachable control is NOT_READY.

    `services` are those whose calls are passed on, each with its methods.
    """

    def __init__(
        self, address: str, internal_token: str, max_message_bytes: int, *, has_debug_service: bool = False
    ) -> None:
        passed_on = (_ADMIN, _MIGRATIONS, _OPTIMIZER, *((_DEBUG,) if has_debug_service else ()))
        self.services = {service.full_name: tuple(service.methods_by_name) for service in passed_on}
        self._internal_token = internal_token
        self._channel = grpc.aio.insecure_channel(
            address,
            options=[
                ("grpc.max_receive_message_length", max_message_bytes),
                ("grpc.max_send_message_length", max_message_bytes),
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 1000),
            ],
        )
        self._register = self._channel.unary_unary(
            f"/{ADMIN_SERVICE}/RegisterInstance",
            request_serializer=admin_pb.RegisterInstanceRequest.SerializeToString,
            response_deserializer=admin_pb.CommonResponse.FromString,
        )

    async def close(self) -> None:
        await self._channel.close()

    async def register(self, request: admin_pb.RegisterInstanceRequest) -> None:
        """Raises the DomainError that control answered with."""
        try:
            answer = await self._register(
                request, timeout=CALL_SECONDS, metadata=((INTERNAL_KEY, self._internal_token),)
            )
        except grpc.aio.AioRpcError as error:
            raise DomainError(
                Code.NOT_READY, f"the control service cannot be reached: {error.details()}"
            ) from error
        status = answer.header.status
        if status.code != admin_pb.OK:
            raise DomainError(_BY_WIRE.get(status.code, Code.INTERNAL), status.message)

    async def forward(self, method: str, request: bytes, caller: Caller, timeout: float | None) -> bytes:
        """Passes an AdminService call on as it is. Raises grpc.aio.AioRpcError as control sent it."""
        metadata = [(INTERNAL_KEY, self._internal_token), (FORWARDED_FOR_KEY, caller.address)]
        if caller.authorization:
            metadata.append(("authorization", caller.authorization))
        call = self._channel.unary_unary(method)
        answer: bytes = await call(
            request, timeout=min(timeout or CALL_SECONDS, CALL_SECONDS), metadata=tuple(metadata)
        )
        return answer
