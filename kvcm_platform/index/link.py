"""One Redis server as a client sees it: a connection that was greeted, and who the server is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import hiredis
from redis.exceptions import RedisError

from . import functions
from .address import Address, Credentials, HostPort
from .wire import IndexUnavailable, Wire, open_wire

CONNECT_SECONDS = 1.0
MAX_CLOCK_SKEW_MS = 1000
"""Between two servers of one index."""
RESERVATION_MARGIN_MS = 2 * MAX_CLOCK_SKEW_MS
"""How far past its insert-by time a reservation is kept: it lies on another server than its blocks."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The life of a server: `run_id` changes at a restart, `history_id` at a failover too.

    `history_id` names the history that its data belongs to, `former_id` that of the server which it was
    a replica of before it was promoted.
    """

    run_id: str
    history_id: str
    former_id: str
    is_master: bool

    @property
    def was_promoted(self) -> bool:
        """Whether it was a replica before, since it began to run."""
        return bool(self.former_id.strip("0"))

    @property
    def text(self) -> str:
        return f"{self.run_id}/{self.history_id}"


class Link:
    """`greet` connects; a link whose wire is lost is greeted anew by whoever owns it."""

    def __init__(self, address: Address, host: HostPort | None) -> None:
        self._address = address
        self.host = host
        self.wire: Wire | None = None
        self.identity: Identity | None = None
        self.clock_offset_ms = 0.0
        """The server's clock minus this process's monotonic clock."""

    @property
    def name(self) -> str:
        return self._address.path if self.host is None else f"{self.host[0]}:{self.host[1]}"

    @property
    def is_connected(self) -> bool:
        return self.wire is not None and not self.wire.is_lost

    async def open(self) -> Wire:
        """A greeted connection, not yet in use. Raises OSError, TimeoutError or RedisError."""
        async with asyncio.timeout(CONNECT_SECONDS):
            wire = await open_wire(self._address, self.host)
        try:
            await self._greet(wire)
        except BaseException:
            wire.abort()
            raise
        return wire

    async def _greet(self, wire: Wire) -> None:
        """Authenticates, loads the functions, reads clock and identity."""
        await authenticate(wire, self._address.credentials)
        if self._address.database:
            await wire.ask("SELECT", self._address.database, timeout=CONNECT_SECONDS)
        self.identity = await _identity(wire)
        if self.identity.is_master:
            await load_functions(wire)
        await self.learn_clock(wire)

    async def learn_clock(self, wire: Wire) -> None:
        asked_at = time.monotonic()
        self.set_clock(await wire.ask("TIME", timeout=CONNECT_SECONDS), asked_at)

    def set_clock(self, reply: Sequence[bytes], asked_at: float) -> None:
        server_ms = int(reply[0]) * 1000 + int(reply[1]) / 1000
        self.clock_offset_ms = server_ms - (asked_at + time.monotonic()) * 500

    def close(self) -> None:
        if self.wire is not None:
            self.wire.close()


async def authenticate(wire: Wire, credentials: Credentials) -> None:
    if credentials.password:
        await wire.ask("AUTH", credentials.user, credentials.password, timeout=CONNECT_SECONDS)


async def load_functions(wire: Wire) -> None:
    """Loads this version's library unless the server has it."""
    known = await wire.answer(wire.send(("FCALL", "kvcm_version", 0)))
    if not isinstance(known, hiredis.ReplyError):
        return
    try:
        await wire.ask("FUNCTION", "LOAD", functions.source())
    except RedisError as error:
        if "already exists" not in str(error):  # another process was faster
            raise


async def _identity(wire: Wire) -> Identity:
    text = await wire.ask("INFO", "server", "replication", timeout=CONNECT_SECONDS)
    info = dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)
    return Identity(
        run_id=info.get("run_id", ""),
        history_id=info.get("master_replid", ""),
        former_id=info.get("master_replid2", ""),
        is_master=info.get("role", "master") == "master",
    )


async def opened_wire(link: Link) -> Wire | None:
    """A new connection where there is none; None where there is one, or none to be had."""
    if link.is_connected:
        return None
    try:
        return await link.open()
    except (OSError, RedisError):
        return None


async def learn_clocks(links: Iterable[Link]) -> None:
    usable = [(link, link.wire) for link in links if link.wire is not None and link.wire.is_usable]
    await asyncio.gather(*(link.learn_clock(wire) for link, wire in usable))


def common_clock(links: Iterable[Link]) -> float:
    """The latest clock of all masters, as an offset. Raises IndexUnavailable when they differ too much."""
    ordered = sorted(links, key=lambda link: link.clock_offset_ms)
    skew = ordered[-1].clock_offset_ms - ordered[0].clock_offset_ms
    if skew > MAX_CLOCK_SKEW_MS:
        raise IndexUnavailable(
            f"the clock of {ordered[-1].name} is {skew / 1000:.1f} s ahead of that of {ordered[0].name};"
            f" at most {MAX_CLOCK_SKEW_MS / 1000:g} s are allowed: keep the servers' clocks right (NTP)"
        )
    return ordered[-1].clock_offset_ms
