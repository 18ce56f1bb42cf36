"""A connection whose blocks are in this process: the index's own keys here, everything else in Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from kvcm_platform.index.connection import CALL_SECONDS, Connection, IndexUnavailable, StaleGeneration

from .changes import OldGeneration
from .server import LocalServer, is_local

_LONG = frozenset({"FCALL", "HSCAN"})
"""Commands after which others get their turn."""


class LocalConnection(Connection):
    """Takes the place of the connection to Redis in every adapter. Several may share one server."""

    order_page = 4096
    """Each page is put in order anew."""

    def __init__(self, server: LocalServer, remote: Connection) -> None:
        super().__init__()
        self.server = server
        self.remote = remote
        self.generation = server.generation
        self.connects = 1

    def now_ms(self) -> int:
        return self.server.now_ms()

    async def learn_clock(self) -> None:
        """There is nothing to learn: the index's clock is this process's."""

    async def connect(self) -> None:
        await self.remote.connect()

    async def close(self) -> None:
        await self.remote.close()

    async def call(self, *command: Any, timeout: float = CALL_SECONDS) -> Any:
        if not is_local(command):
            return await self.remote.call(*command, timeout=timeout)
        reply = await self._execute(command)
        if command[0] in _LONG:
            await asyncio.sleep(0)
        return reply

    async def pipeline(
        self, commands: Sequence[tuple[Any, ...]], timeout: float = CALL_SECONDS, at: str = ""
    ) -> list[Any]:
        """Commands of one kind of place each time: all here or all in Redis."""
        if not commands or is_local(commands[0]):
            return [await self._execute(command) for command in commands]
        return await self.remote.pipeline(commands, timeout=timeout, at=at)

    async def _execute(self, command: Sequence[Any]) -> Any:
        try:
            if command[0] == "WAITAOF":
                await self.server.keys.store.sync()
                return [1, 0]
            return self.server.execute(*command)
        except OldGeneration as error:
            self.generation = error.known
            raise StaleGeneration("the index's generation moved on") from error
        except OSError as error:
            raise IndexUnavailable(f"the index's store cannot be used: {error}") from error
