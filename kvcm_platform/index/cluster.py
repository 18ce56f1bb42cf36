"""The index on a Redis Cluster: commands go to the master of their key's slot.

One task, `_refresh`, learns who the masters are, greets those that are new or came back, sets the
generation, and only then puts them into use, all at once. It runs when a connection is lost, a
node answers that a slot moved, or a call finds nobody to ask.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import hiredis
from redis.exceptions import RedisError

from . import keyspace, life
from .address import Address, HostPort
from .connection import Connection
from .link import CONNECT_SECONDS, Link, common_clock, learn_clocks, load_functions, opened_wire
from .slots import COUNT, Master, key_of, parse_shards, redirection, slot_of
from .wire import CALL_SECONDS, OUTAGE_SECONDS, IndexUnavailable, StaleGeneration, Wire, raised

MAP_SECONDS = 0.5
"""How long a node may take to tell the map of slots before another one is asked."""
RETRY_SECONDS = (0.01, 0.02, 0.04, 0.06, 0.07)
"""Pauses while a slot is on the move: OUTAGE_SECONDS together."""
REFRESH_PAUSE = 0.1
"""Between two attempts to reach masters that are away."""
MAX_STAMP_NUMBERS = 1000
"""Names tried to find one for each master; a master without slots has none."""
_HALF_MOVED = "access a non local key"
"""What a function's error says on either side of a slot that is moved key by key (lua/1_common.lua)."""


class ClusterConnection(Connection):
    """`Connection` to all masters of a Cluster."""

    def __init__(self, address: Address) -> None:
        super().__init__()
        self._address = address
        self._links: dict[HostPort, Link] = {}
        self._slots: list[Link | None] = [None] * COUNT
        self._identity = ""
        self._refreshing: asyncio.Task[None] | None = None
        self._attempt: asyncio.Future[None] | None = None
        self._trouble = ""
        self._is_closed = False

    # Calls

    async def call(self, *command: Any, timeout: float = CALL_SECONDS) -> Any:
        link = self._slots[slot_of(key_of(command))]
        wire = None if link is None else link.wire
        if link is None or wire is None or not wire.is_usable:
            link, wire = await self._ready(slot_of(key_of(command)), OUTAGE_SECONDS)
        reply = await wire.answer(wire.send(command, timeout), timeout)
        if isinstance(reply, hiredis.ReplyError):
            return await self._again(link, wire, command, reply, timeout)
        return reply

    async def pipeline(
        self, commands: Sequence[tuple[Any, ...]], timeout: float = CALL_SECONDS, at: str = ""
    ) -> list[Any]:
        routes = []
        for command in commands:
            slot = slot_of(at or key_of(command))
            link = self._slots[slot]
            wire = None if link is None else link.wire
            if link is None or wire is None or not wire.is_usable:
                link, wire = await self._ready(slot, OUTAGE_SECONDS)
            routes.append((link, wire))
        waiters = [wire.send(command, timeout) for command, (_, wire) in zip(commands, routes, strict=True)]
        replies = [
            await wire.answer(waiter, timeout) for waiter, (_, wire) in zip(waiters, routes, strict=True)
        ]
        answers = []
        for command, (link, wire), reply in zip(commands, routes, replies, strict=True):
            if isinstance(reply, hiredis.ReplyError):
                if at and redirection(str(reply), link.host or ("", 0)):
                    self._ask_for_map()
                    raise IndexUnavailable(f"the slot of {at} moved, try again")
                reply = await self._again(link, wire, command, reply, timeout)
            answers.append(reply)
        return answers

    async def _again(
        self, link: Link, wire: Wire, command: tuple[Any, ...], reply: Any, timeout: float
    ) -> Any:
        """What an error reply comes to: the answer of another node or attempt, or an exception."""
        pauses = iter(RETRY_SECONDS)
        while isinstance(reply, hiredis.ReplyError):
            text = str(reply)
            if text.startswith("OLDGEN"):
                self.generation = max(self.generation, int(text.split()[1]))
                raise StaleGeneration("the index's generation moved on")
            to = redirection(text, link.host or ("", 0))
            is_asking = False
            if to is not None:
                is_asking = to.is_asking
                link, wire = await self._redirected(to.host)
                if not is_asking:
                    self._slots[to.slot] = link
                    self._ask_for_map()
            elif text.startswith("ERR Function not found"):
                await load_functions(wire)
            elif not text.startswith("TRYAGAIN") and _HALF_MOVED not in text:
                if text.startswith("CLUSTERDOWN"):
                    self._ask_for_map()
                raise raised(reply)
            pause = next(pauses, None)
            if pause is None:
                raise IndexUnavailable(f"a slot of the Cluster is on the move: {text}")
            if to is None:
                await asyncio.sleep(pause)
            if is_asking:
                wire.send(("ASKING",))
            reply = await wire.answer(wire.send(command, timeout), timeout)
        return reply

    async def _redirected(self, host: HostPort) -> tuple[Link, Wire]:
        """The node that another one named, which may be new here."""
        found = await self._usable(lambda: self._links.get(host), OUTAGE_SECONDS)
        if found is None:
            raise IndexUnavailable(f"{host[0]}:{host[1]} cannot be reached")
        return found

    async def _ready(self, slot: int, patience: float) -> tuple[Link, Wire]:
        """Who serves the slot, once it can be reached. Raises IndexUnavailable after `patience` seconds."""
        found = await self._usable(lambda: self._slots[slot], patience)
        if found is None:
            link = self._slots[slot]
            name = "nobody serves it" if link is None else link.name
            raise IndexUnavailable(f"slot {slot} of the Redis Cluster: {self._trouble or name}")
        return found

    async def _usable(self, find: Callable[[], Link | None], patience: float) -> tuple[Link, Wire] | None:
        """Waits until what `find` gives can be used, while the map is learnt anew."""
        deadline = time.monotonic() + patience
        while True:
            link = find()
            if link is not None and link.wire is not None and link.wire.is_usable:
                return link, link.wire
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            self._ask_for_map()
            if link is not None and link.wire is not None and not link.wire.is_lost:
                await link.wire.heard(left)
            elif self._attempt is not None:
                await asyncio.wait({self._attempt}, timeout=left)

    # Life

    async def connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS + CALL_SECONDS):
                await self._refresh()
        except (OSError, RedisError) as error:
            raise IndexUnavailable(f"the Redis Cluster cannot be reached: {error}") from error

    async def close(self) -> None:
        self._is_closed = True
        if self._refreshing is not None:
            self._refreshing.cancel()
        for link in self._links.values():
            link.close()

    async def learn_clock(self) -> None:
        await learn_clocks(self._links.values())
        try:
            self._clock_offset_ms = common_clock(self._links.values())
        except IndexUnavailable:
            # Nothing may be served until they agree again, which the refresh finds out.
            self._slots = [None] * COUNT
            self._ask_for_map()
            raise

    # Who the masters are

    def _ask_for_map(self) -> None:
        """Starts a refresh in the background unless one is on its way."""
        if not self._is_closed and (self._refreshing is None or self._refreshing.done()):
            self._attempt = asyncio.get_running_loop().create_future()
            self._refreshing = asyncio.ensure_future(self._keep_refreshing())

    async def _keep_refreshing(self) -> None:
        """Until every master is connected; calls to those that are go on meanwhile."""
        while not self._is_closed:
            attempt = self._attempt
            try:
                await self._refresh()
                self._trouble = ""
            except (OSError, RedisError) as error:
                self._trouble = str(error) or type(error).__name__
            is_done = not self._trouble and all(link.is_connected for link in self._links.values())
            self._attempt = None if is_done else asyncio.get_running_loop().create_future()
            if attempt is not None:
                attempt.set_result(None)
            if is_done:
                return
            await asyncio.sleep(REFRESH_PAUSE)

    async def _refresh(self) -> None:
        """Learns who serves what, greets who is not connected, sets the generation, puts all into use.

        A master that cannot be reached keeps its slots; calls for them are refused. Raises OSError or
        RedisError when that much cannot be found out; what was in use stays so.
        """
        masters = await self._read_shards()
        links = {one.host: self._links.get(one.host) or Link(self._address, one.host) for one in masters}
        opened = await asyncio.gather(*map(opened_wire, links.values()))
        fresh = {host: wire for host, wire in zip(links, opened, strict=True) if wire is not None}
        try:
            await self._learn_generation(links, masters, fresh)
            await learn_clocks(links.values())
            offset = common_clock(links.values())
        except BaseException:
            for wire in fresh.values():
                wire.abort()
            raise
        self._clock_offset_ms = offset
        self._put_into_use(links, masters, fresh)

    async def _read_shards(self) -> list[Master]:
        """From the first node that answers, those in use before those that the URL names."""
        reasons = []
        for link in self._links.values():
            if link.wire is not None and link.wire.is_usable:
                try:
                    return await self._shards_of(link.wire, link.host)
                except RedisError as error:
                    reasons.append(f"{link.name}: {error}")
        for host in dict.fromkeys([*self._address.hosts, *self._links]):
            try:
                wire = await Link(self._address, host).open()
            except (OSError, RedisError) as error:
                reasons.append(f"{host[0]}:{host[1]}: {error or type(error).__name__}")
                continue
            try:
                return await self._shards_of(wire, host)
            except RedisError as error:
                reasons.append(f"{host[0]}:{host[1]}: {error}")
            finally:
                wire.close()
        raise IndexUnavailable("; ".join(reasons))

    async def _shards_of(self, wire: Wire, host: HostPort | None) -> list[Master]:
        reply = await wire.ask("CLUSTER", "SHARDS", timeout=MAP_SECONDS)
        return parse_shards(reply, host or ("", 0), is_tls=self._address.is_tls)

    async def _learn_generation(
        self, links: Mapping[HostPort, Link], masters: Sequence[Master], fresh: Mapping[HostPort, Wire]
    ) -> None:
        """The lives of all masters together are the life of the index; any change begins a new one."""
        lives: list[life.Master] = []
        for master in masters:
            link = links[master.host]
            if link.identity is None or not link.identity.is_master:
                raise IndexUnavailable(f"{link.name} cannot be reached or is no master")
            lives.append(life.Master(link.identity, master.slots))
        identity = " ".join(sorted(one.server.text for one in lives))
        if identity == self._identity and not fresh:
            return

        async def ask(key: str, *command: Any) -> Any:
            slot = slot_of(key)
            holder = next((m.host for m in masters if any(a <= slot <= b for a, b in m.slots)), None)
            wire = None if holder is None else fresh.get(holder) or links[holder].wire
            if wire is None or wire.is_lost:
                raise IndexUnavailable(f"the server that holds {key} cannot be reached")
            return await wire.ask(*command, timeout=CONNECT_SECONDS)

        self.generation = await self.life.begin(lives, ask)
        self._identity = identity

    def _stamp_keys(self) -> list[str]:
        """The common one, and one for each master beside the one that holds it."""
        keys = [keyspace.ALIVE]
        holders = {id(self._slots[slot_of(keyspace.ALIVE)])}
        for number in range(MAX_STAMP_NUMBERS):
            if len(holders) >= len(self._links):
                break
            key = keyspace.alive_beside(number)
            link = self._slots[slot_of(key)]
            if link is not None and id(link) not in holders:
                holders.add(id(link))
                keys.append(key)
        return keys

    def _put_into_use(
        self, links: dict[HostPort, Link], masters: Sequence[Master], fresh: Mapping[HostPort, Wire]
    ) -> None:
        for host, wire in fresh.items():
            links[host].wire = wire
            wire.lost.add_done_callback(lambda _: self._ask_for_map())
        for host, link in self._links.items():
            if host not in links:
                link.close()
        slots: list[Link | None] = [None] * COUNT
        for master in masters:
            for first, last in master.slots:
                slots[first : last + 1] = [links[master.host]] * (last + 1 - first)
        self._links, self._slots = links, slots
        if fresh:
            self.connects += 1
