"""What the adapters of this package need of a connection to the index, and how one is made.

`SingleConnection` (one server, also the one that Sentinels name) and `ClusterConnection` speak
through a small asyncio client of our own that writes all commands of one loop tick together; it is
a third of the cost of redis.asyncio on large HMGETs (MEASUREMENTS D). They reconnect by
themselves, load the function library, learn the index's generation and clock on each connect, and
give every call a deadline.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from . import keyspace
from .life import Life
from .wire import CALL_SECONDS, OUTAGE_SECONDS, READ_SECONDS, Fenced, IndexUnavailable, StaleGeneration

__all__ = [
    "CALL_SECONDS",
    "OUTAGE_SECONDS",
    "READ_SECONDS",
    "Commands",
    "Connection",
    "Fenced",
    "IndexUnavailable",
    "StaleGeneration",
]


class Commands(Protocol):
    """What the adapters of this package need of a connection."""

    @property
    def generation(self) -> int: ...

    async def call(self, *command: Any, timeout: float = CALL_SECONDS) -> Any: ...

    async def pipeline(
        self, commands: Sequence[tuple[Any, ...]], timeout: float = CALL_SECONDS
    ) -> list[Any]: ...


class Connection(ABC):
    """Use from one event loop; `connect` first, `close` at the end.

    `generation` numbers the lives of the whole index; `connects` counts how often it was learnt anew.
    """

    order_page = 512
    """Members of a sorted set that are read at once."""

    def __init__(self) -> None:
        self.generation = 0
        self.connects = 0
        self.life = Life()
        self._clock_offset_ms = 0.0

    def now_ms(self) -> int:
        """The index's clock, carried on from the last `learn_clock` by a clock that nobody sets.

        Of several servers the latest clock counts: what is due by it is never early on any of them.
        """
        return round(time.monotonic() * 1000 + self._clock_offset_ms)

    def server_of(self, key: str) -> Connection:
        """The connection to whatever holds a key: what fails there fails for nothing else."""
        return self

    def generation_of(self, key: str) -> int:
        """The life of the server that holds a key."""
        return self.generation

    def life_of(self, key: str) -> Life:
        """What is known of the present life of the server that holds a key."""
        return self.life

    @abstractmethod
    async def learn_clock(self) -> None:
        """Reads the clock anew; once a second is enough."""

    async def stamp(self) -> None:
        """Tells later lives that this one lasted until now; once a second is enough.

        Nothing is stamped while it is not known whether this life may be trusted: that is judged by
        the stamps.
        """
        if self.life.doubt:
            await self.learn_verdict()
        if not self.life.is_undecided:
            keys = self._stamp_keys()
            stamps = await self.pipeline([("FCALL", "kvcm_alive", 1, key) for key in keys])
            self.life.remember(dict(zip(keys, map(int, stamps), strict=True)))

    async def learn_verdict(self) -> None:
        """What others found out about this life meanwhile."""
        await self.life.ask_again(self.generation, self._ask)

    def _stamp_keys(self) -> list[str]:
        """One key on each server."""
        return [keyspace.ALIVE]

    async def _ask(self, _: str, *command: Any) -> Any:
        return await self.call(*command, timeout=READ_SECONDS)

    @abstractmethod
    async def connect(self) -> None:
        """Connects now, or raises IndexUnavailable with the reason."""

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def call(self, *command: Any, timeout: float = CALL_SECONDS) -> Any:
        """One command. Raises IndexUnavailable, StaleGeneration or RedisError.

        One that waited less than CALL_SECONDS in vain leaves the connection as it is.
        """

    @abstractmethod
    async def pipeline(
        self, commands: Sequence[tuple[Any, ...]], timeout: float = CALL_SECONDS, at: str = ""
    ) -> list[Any]:
        """Many commands in one write a server; raises the first error only after all were answered.

        With `at` all go, in order, to the server that holds this key, on one connection: for commands
        that name no key and speak of what came before them.
        """


async def each_to_its_end(works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Carries all out, side by side; raises the first error only when every one has ended."""
    for result in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
