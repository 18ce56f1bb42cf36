"""Streaming methods that are answered message by message: reflection, and the health check's Watch.

Their replies are plain functions of one message, so the frame machine itself asks for them; nothing waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import structlog
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from ...rpc import DESERIALIZING
from . import answers
from .frames import ErrorCode
from .limits import Budget, Limits
from .messages import PREFIX_BYTES, Refused, Status, larger_than
from .outflow import Outflow
from .stream import Stream, StreamFault

log = structlog.get_logger(__name__)
MOST_MESSAGE_BYTES = 64 << 10
MESSAGE_COST = 4.0
"""Credits of a message: it costs a reply."""


class Conversation(Protocol):
    """The route of a streaming method. An `is_open_ended` answer goes on when the client's half has ended."""

    is_open_ended: bool

    def reply(self, message: bytes) -> Sequence[bytes]:
        """What one message is answered with. Raises Refused to end the call."""
        ...


class Conversations:
    """Of one connection: gathers messages and lets their replies out."""

    def __init__(self, limits: Limits, budget: Budget, outflow: Outflow) -> None:
        self._most_received = limits.stream_window
        self._budget = budget
        self._outflow = outflow

    def take(self, stream: Stream, payload: bytes, flow_bytes: int, is_end: bool) -> None:
        """Adds DATA of a conversation. Raises Refused (a status) or StreamFault (a reset)."""
        stream.has_progress = True
        stream.received += flow_bytes
        if stream.received > self._most_received:
            raise StreamFault(ErrorCode.FLOW_CONTROL_ERROR)
        route: Conversation = stream.head.route
        partial = stream.partial
        if partial is None:
            partial = stream.partial = bytearray()
        partial += payload
        while (message := _next_message(partial)) is not None:
            self._budget.charge(MESSAGE_COST)
            for answer in _replies(route, message):
                self._outflow.say(stream, answer)
        if not is_end:
            return
        if partial:
            raise Refused(Status.INTERNAL, "the message is shorter than its prefix says")
        if not route.is_open_ended:
            self._outflow.finish(stream, answers.TRAILERS)


def _replies(route: Conversation, message: bytes) -> Sequence[bytes]:
    try:
        return route.reply(message)
    except Refused:
        raise
    except Exception as error:
        log.exception("a handler failed")
        raise Refused(Status.UNKNOWN, f"Unexpected {type(error)}: {error}") from error


def _next_message(partial: bytearray) -> bytes | None:
    """Takes the first whole message off the front."""
    if len(partial) < PREFIX_BYTES:
        return None
    if partial[0]:
        raise Refused(Status.UNIMPLEMENTED, "compressed messages of a stream are not supported")
    size = int.from_bytes(partial[1:PREFIX_BYTES], "big")
    if size > MOST_MESSAGE_BYTES:
        raise Refused(Status.RESOURCE_EXHAUSTED, larger_than(MOST_MESSAGE_BYTES))
    stop = PREFIX_BYTES + size
    if len(partial) < stop:
        return None
    message = bytes(partial[PREFIX_BYTES:stop])
    del partial[:stop]
    return message


class Reflection:
    """grpc.reflection.v1alpha over the protobuf descriptors of this process."""

    is_open_ended = False

    def __init__(self, services: Sequence[str]) -> None:
        self._servicer: Any = reflection.ReflectionServicer(services)

    def reply(self, message: bytes) -> Sequence[bytes]:
        try:
            request = reflection_pb2.ServerReflectionRequest.FromString(message)
        except DecodeError as error:
            raise Refused(Status.INTERNAL, DESERIALIZING) from error
        return [one.SerializeToString() for one in self._servicer.ServerReflectionInfo([request], None)]


class HealthWatch:
    """grpc.health.v1.Health/Watch: the state never changes before the connection is drained."""

    is_open_ended = True

    def __init__(self, services: frozenset[str]) -> None:
        self._services = services

    def reply(self, message: bytes) -> Sequence[bytes]:
        try:
            service = health_pb2.HealthCheckRequest.FromString(message).service
        except DecodeError as error:
            raise Refused(Status.INTERNAL, DESERIALIZING) from error
        answer = health_pb2.HealthCheckResponse
        status = answer.SERVING if service in self._services else answer.SERVICE_UNKNOWN
        return [answer(status=status).SerializeToString()]
