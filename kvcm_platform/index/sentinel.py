"""The index on a master that Redis Sentinels name; asked for again on each connect."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from redis.exceptions import RedisError

from .address import HostPort
from .link import authenticate
from .single import SingleConnection
from .wire import IndexUnavailable, open_wire

ASK_SECONDS = 0.5


class SentinelConnection(SingleConnection):
    """Sentinels disconnect the clients of a master that they demote, so asking on connect is enough."""

    async def _host(self) -> HostPort:
        reasons = []
        for sentinel in self._address.hosts:
            try:
                found = await self._master_by(sentinel)
            except (OSError, RedisError) as error:
                reasons.append(f"{sentinel[0]}:{sentinel[1]}: {error or type(error).__name__}")
                continue
            if found is not None:
                return found
            reasons.append(f"{sentinel[0]}:{sentinel[1]} knows no master {self._address.master_name!r}")
        raise IndexUnavailable("; ".join(reasons))

    async def _master_by(self, sentinel: HostPort) -> HostPort | None:
        """Raises OSError (TimeoutError among them) or RedisError."""
        # Sentinels have accounts of their own; database and master's user mean nothing to them.
        address = replace(self._address, credentials=self._address.sentinel_credentials)
        async with asyncio.timeout(ASK_SECONDS):
            wire = await open_wire(address, sentinel)
            try:
                await authenticate(wire, address.credentials)
                reply = await wire.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._address.master_name)
            finally:
                wire.close()
        return None if reply is None else (reply[0].decode(), int(reply[1]))
