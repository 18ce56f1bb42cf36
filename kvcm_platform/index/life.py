"""Whether the index may have lost what was done by it: the lives of its servers (DESIGN 4.1).

A *life* begins with a change of the servers' identities (a restart, a failover) and has a number,
the generation. Deletions wait until their mark is in the server's log, so a server that comes back
with its own log shows no block whose object is gone. A replica that was promoted may, and so may a
server restored from a backup. Then shards are in *doubt*: their blocks are misses until a duty has
looked at their objects (kvcm_platform/duties/verify.py) and noted the life in the shard (`checked`).

Who sees a new life first judges it, before anybody is served:
- a server that was promoted from a replica: in doubt;
- the stamp that living processes write each second (`{…}:alive`, the server's ms) is older than one
  that this process remembers, by more than TOLERANCE_MS: in doubt, the data is from an earlier time;
- stamps are as remembered: all is well;
- this process remembers nothing: undecided, which is served like doubt until a process that does
  remember comes by. control keeps the newest stamps in the database for that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from . import keyspace
from .slots import slot_of

TOLERANCE_MS = 3000
"""A log written each second may miss the last stamps after a crash of the machine; more is another time."""
MAX_REMEMBERED = 4096
OK, DOUBT, UNDECIDED = b"ok", b"doubt", b"?"
_NO_HISTORY = "0"

Ask = Callable[..., Awaitable[Any]]
"""ask(key, *command): the reply of the server that holds the key."""


class Server(Protocol):
    """What is asked of a master's identity (index.link.Identity)."""

    @property
    def text(self) -> str: ...

    @property
    def was_promoted(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Master:
    """A master of this life and the (first, last) slots it serves; none = all there is."""

    server: Server
    slots: tuple[tuple[int, int], ...]


class Life:
    """What one process knows: stamps of this life and of earlier ones, and which shards are in doubt."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}
        """Newest stamp by key, in ms of the server that holds it."""
        self.is_authority = False
        """Nobody remembers more: what this process does not know never was."""
        self.is_undecided = False
        self.doubt = 0
        """Shards that were not checked in this life or a later one are in doubt; 0 = none is."""
        self._ranges: tuple[tuple[int, int], ...] = ()
        self._trusted: set[str] = set()

    def remember(self, stamps: Mapping[str, int]) -> None:
        for key, at in stamps.items():
            if len(self.seen) < MAX_REMEMBERED or key in self.seen:
                self.seen[key] = max(at, self.seen.get(key, 0))

    async def begin(self, masters: Sequence[Master], ask: Ask) -> int:
        """Learns this life's number, and judges it when nobody has yet. Returns the number."""
        identity = " ".join(sorted(master.server.text for master in masters))
        base = keyspace.GENERATION
        reply = await ask(base, "FCALL", "kvcm_generation", 1, base, identity)
        number, state, before = int(reply[0]), reply[1], reply[2].decode()
        if state == UNDECIDED:
            state, ranges = await self._judge(masters, before, ask)
            if state != UNDECIDED:
                reply = await ask(base, "FCALL", "kvcm_judged", 1, base, number, state, ranges)
                self._apply(number, reply[0], *reply[1:])
                return number
        self._apply(number, *reply[1:2], *reply[3:])
        return number

    async def ask_again(self, number: int, ask: Ask) -> None:
        """Reads what others found out meanwhile."""
        fields = await ask(keyspace.GENERATION, "HMGET", keyspace.GENERATION, "state", "doubt", "slots")
        self._apply(number, *(value or b"" for value in fields))

    def _apply(self, number: int, state: bytes, doubt: bytes, slots: bytes) -> None:
        self.is_undecided = state == UNDECIDED
        known = number if self.is_undecided else int(doubt or 0)
        if known != self.doubt:
            self._trusted.clear()
        self.doubt = known
        texts = () if self.is_undecided else tuple(filter(None, slots.decode().split(",")))
        self._ranges = tuple((int(first), int(last)) for first, _, last in (t.partition("-") for t in texts))

    async def _judge(self, masters: Sequence[Master], before: str, ask: Ask) -> tuple[bytes, str]:
        """(state, slots in doubt as `first-last,…`; empty = all)."""
        doubtful: list[tuple[int, int]] = []
        is_doubtful = False
        known = set(before.split(" "))
        for master in masters:
            if master.server.was_promoted and master.server.text not in known:
                is_doubtful = True
                doubtful += master.slots
        for key, seen in self.seen.items():
            stamp = await ask(key, "GET", key)
            if int(stamp or 0) < seen - TOLERANCE_MS:
                is_doubtful = True
                doubtful += _slots_beside(masters, key)
        if is_doubtful:
            return DOUBT, ",".join(f"{first}-{last}" for first, last in doubtful)
        if self.seen or self.is_authority or await ask(keyspace.ALIVE, "GET", keyspace.ALIVE) is None:
            return OK, ""
        return UNDECIDED, ""

    def trusts(self, base: str) -> bool:
        """Whether a shard is known to be free of doubt."""
        return not self.doubt or base in self._trusted or not self._covers(base)

    def _covers(self, base: str) -> bool:
        slot = slot_of(base)
        return not self._ranges or any(first <= slot <= last for first, last in self._ranges)

    def trust(self, base: str) -> None:
        self._trusted.add(base)


def _slots_beside(masters: Sequence[Master], key: str) -> tuple[tuple[int, int], ...]:
    """All slots of the server that serves the key."""
    slot = slot_of(key)
    for master in masters:
        if any(first <= slot <= last for first, last in master.slots):
            return master.slots
    return ()
