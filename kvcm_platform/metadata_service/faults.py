"""Fails calls on purpose, as DebugService was asked to. Only a process with KVCM_DEBUG_SERVICE=1 has one."""

from __future__ import annotations

from typing import Any

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.faults import FAULTY_APIS, Fault
from kvcm_platform.index import faults
from kvcm_platform.index.connection import Commands

from .rpc import Handler


class Faults:
    """This process's copy of the faults; `refresh` brings it up to date."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._by_api: dict[str, Fault] = {}

    async def refresh(self) -> None:
        self._by_api = await faults.read(self._commands)

    def guarded(self, api: str, handle: Handler) -> Handler:
        """The handler with the API's faults before it; the handler itself where faults do not act on it."""
        if api not in FAULTY_APIS:
            return handle

        async def guard(request: Any, request_id: str) -> bytes:
            fault = self._by_api.get(api)
            if fault is not None and fault.strikes(request.trace_id):
                raise DomainError(Code.INTERNAL, f"a fault was injected into {api}")
            return await handle(request, request_id)

        return guard
