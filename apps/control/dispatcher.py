"""Carries out the calls of AdminService and DebugService, whichever door they came through."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Executor

import redis
import structlog
from django.db import InterfaceError, OperationalError, close_old_connections
from google.protobuf.message import Message

from apps.control import mapping
from apps.control.access import AdminAccess, Caller
from apps.control.calls import (
    accounts,
    cluster,
    faults,
    groups,
    instances,
    metrics,
    migrations,
    optimizer,
    storages,
)
from apps.control.calls.call import Call, Rpc
from apps.control.node import Node
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.pb import admin_service_pb2 as pb

log = structlog.get_logger(__name__)

RPCS: dict[str, Rpc] = {
    rpc.name: rpc
    for part in (storages, groups, instances, accounts, cluster, metrics, migrations, optimizer)
    for rpc in part.RPCS
}
DEBUG_RPCS: dict[str, Rpc] = {rpc.name: rpc for rpc in faults.RPCS}
_STORES_DOWN = (OperationalError, InterfaceError, redis.ConnectionError, redis.TimeoutError)


class Dispatcher:
    """Calls run on `executor`: the database driver blocks, the event loop must not."""

    def __init__(self, node: Node, access: AdminAccess, executor: Executor) -> None:
        self._node = node
        self._access = access
        self._executor = executor

    async def call(self, rpc: Rpc, request: Message, caller: Caller) -> Message:
        """The answer of one call. Raises DomainError only where it is no message (CODES.grpc != OK)."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._carry_out, rpc, request, caller)

    def _carry_out(self, rpc: Rpc, request: Message, caller: Caller) -> Message:
        request_id = f"{getattr(request, 'trace_id', '')}_{time.time_ns() // 1000}"
        close_old_connections()
        try:
            with structlog.contextvars.bound_contextvars(request_id=request_id, rpc=rpc.name):
                return self._answer(rpc, request, caller, request_id)
        finally:
            close_old_connections()

    def _answer(self, rpc: Rpc, request: Message, caller: Caller, request_id: str) -> Message:
        try:
            acting = self._access.actor(rpc=rpc.name, role=rpc.role, caller=caller, request_id=request_id)
            if rpc.is_gated and self._node.leader.is_standing_down:
                raise DomainError(Code.NOT_LEADER, "Server is not leader")
            answer = rpc.carry_out(Call(request, acting, self._node))
        except Exception as error:  # noqa: BLE001 (nothing may leave a call in another form)
            refusal = _refusal(error)
            log.info("call refused", code=refusal.code, reason=refusal.message, address=caller.address)
            if refusal.forms.grpc != "OK":
                raise refusal from error
            answer = rpc.response_class()
            answer.header.status.code = refusal.forms.wire
            answer.header.status.message = mapping.wire_message(refusal, rpc.fields)
        # What was passed on from the data plane brings its own code.
        if answer.header.status.code == pb.UNSPECIFIED:
            answer.header.status.code = pb.OK
        answer.header.request_id = request_id
        return answer


def _refusal(error: Exception) -> DomainError:
    if isinstance(error, DomainError):
        return error
    if isinstance(error, _STORES_DOWN):
        log.error("a store does not answer", error=str(error))
        return DomainError(Code.NOT_READY, "the database or the index does not answer")
    log.error("call failed", exc_info=error)
    return DomainError(Code.INTERNAL, "internal error, see the server's log")
