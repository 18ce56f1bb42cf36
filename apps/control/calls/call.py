"""What every call gets, and how a call is listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from apps.common.actor import Actor, Role
from apps.control.node import Node
from kvcm_platform.core.errors import invalid
from kvcm_platform.core.validation.values import text
from kvcm_platform.pb import admin_service_pb2 as pb
from kvcm_platform.pb import debug_service_pb2 as debug_pb
from kvcm_platform.pb import kvcm_v1_pb2 as v1

ADMIN_SERVICE: ServiceDescriptor = pb.DESCRIPTOR.services_by_name["AdminService"]
DEBUG_SERVICE: ServiceDescriptor = debug_pb.DESCRIPTOR.services_by_name["DebugService"]
MIGRATIONS: ServiceDescriptor = v1.DESCRIPTOR.services_by_name["Migrations"]
OPTIMIZER: ServiceDescriptor = v1.DESCRIPTOR.services_by_name["OptimizerService"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its request, in whose name it acts, and the node that answers."""

    request: Any
    acting: Actor
    node: Node

    def required(self, name: str) -> Any:
        """A sub-message of the request. Raises INVALID_ARGUMENT where it is absent."""
        if not self.request.HasField(name):
            raise invalid(name, "is required")
        return getattr(self.request, name)

    def required_text(self, name: str) -> str:
        """A text of the request. Raises INVALID_ARGUMENT where it is empty or none."""
        return text(name, getattr(self.request, name), is_required=True)


@dataclass(frozen=True, slots=True)
class Rpc:
    """One method of control's services. `is_gated` = refused while the node stands down (WIRE.md 1.4)."""

    name: str
    carry_out: Callable[[Call], Message]
    role: Role
    is_gated: bool = True
    fields: Mapping[str, str] = field(default_factory=dict)
    """Spelling of fields in error messages, where the protocol's differs."""
    service: ServiceDescriptor = ADMIN_SERVICE

    @property
    def request_class(self) -> type[Message]:
        return GetMessageClass(self._method.input_type)

    @property
    def response_class(self) -> type[Message]:
        return GetMessageClass(self._method.output_type)

    @property
    def _method(self) -> MethodDescriptor:
        return self.service.methods_by_name[self.name]

    @property
    def http_path(self) -> str:
        return f"/api/{self.name[0].lower()}{self.name[1:]}"


def done(message: str = "") -> pb.CommonResponse:
    """The answer of a change; `message` says what the caller should know besides."""
    if not message:
        return pb.CommonResponse()
    return pb.CommonResponse(header=pb.CommonResponseHeader(status=pb.Status(message=message)))
