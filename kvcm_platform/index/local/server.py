"""The index in this process: what Redis does for the adapters of this package, over a ByteStore.

A call is one transaction, and nothing comes between two of its lines: it holds the event loop,
for a few ms at most. So quota and limits are exact, and a process that dies between any two lines
leaves what a whole call left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from kvcm_platform.index import functions, keyspace
from kvcm_platform.index.embedded.byte_store import ByteStore

from . import (
    copies,
    eviction,
    groups,
    heat,
    inserts,
    permits,
    pools,
    removal,
    sessions,
    storages,
    tickets,
    waiting,
)
from .changes import Call
from .commands import COMMANDS
from .keys import Keys, Transaction

FUNCTIONS: dict[str, Callable[[Call, Sequence[bytes]], Any]] = {
    "kvcm_write": inserts.write,
    "kvcm_finish": sessions.finish,
    "kvcm_finish_next": sessions.finish_next,
    "kvcm_park": sessions.park,
    "kvcm_fail": sessions.fail,
    "kvcm_ticket_open": tickets.open_ticket,
    "kvcm_ticket_placed": tickets.placed,
    "kvcm_ticket_decide": tickets.decide,
    "kvcm_ticket_drop": tickets.drop,
    "kvcm_remove": removal.remove,
    "kvcm_trim_count": removal.trim_count,
    "kvcm_evict": eviction.evict,
    "kvcm_due": removal.due,
    "kvcm_deleted": removal.deleted,
    "kvcm_postpone": removal.postpone,
    "kvcm_aside": waiting.aside,
    "kvcm_asides": waiting.asides,
    "kvcm_touch": removal.touch,
    "kvcm_copy": copies.copy,
    "kvcm_shed": copies.shed,
    "kvcm_heat": heat.heat,
    "kvcm_uses": heat.uses,
    "kvcm_hot": heat.hot,
    "kvcm_cooled": heat.cooled,
    "kvcm_limits": groups.limits,
    "kvcm_reserve": groups.reserve,
    "kvcm_push": groups.push,
    "kvcm_release": groups.release,
    "kvcm_usage": groups.usage,
    "kvcm_pushed": groups.pushed,
    "kvcm_retotal": groups.retotal,
    "kvcm_permits": permits.permits,
    "kvcm_session_enter": permits.session_enter,
    "kvcm_slots_free": storages.slots_free,
    "kvcm_slots_forget": storages.slots_forget,
    "kvcm_orphan": storages.orphan,
    "kvcm_orphan_drop": storages.orphan_drop,
    "kvcm_repair": storages.repair,
    "kvcm_pool_take": pools.take,
    "kvcm_pool_free": pools.free,
    "kvcm_pool_restore": pools.restore,
    "kvcm_pool_settle": pools.settle,
    "kvcm_pool_drop": pools.drop,
}
LIFE = b"@"
"""Table of what the store knows of itself."""
GENERATION = b"generation"

_KEYLESS = frozenset({"TIME", "WAITAOF"})
_TAGS_OF_REDIS = ("{kvcm}", "{kvcm:", "{alive:", "{mi:")
_OWN = frozenset({keyspace.LEAVING, keyspace.LEAVING_SINCE, keyspace.TRIMS, keyspace.TRIM_CURSORS})
_LEASES = keyspace.TRIMS + ":"
LEASE_FUNCTIONS = frozenset({"kvcm_lease_keep", "kvcm_lease_drop"})


def is_local(command: Sequence[Any]) -> bool:
    """Whether it is about instances, groups, storages, removed instances or trims: they lie here."""
    if command[0] in _KEYLESS:
        return True
    at = 3 if command[0] == "FCALL" else 1
    if len(command) <= at:
        return False
    key = command[at].decode() if isinstance(command[at], bytes) else str(command[at])
    if key.startswith("{"):
        return not key.startswith(_TAGS_OF_REDIS)
    return key in _OWN or key.startswith(_LEASES)


class LocalServer:
    """`execute` answers as Redis would. Raises OldGeneration, and OSError when the store cannot be used."""

    def __init__(self, store: ByteStore) -> None:
        self.keys = Keys(store)
        self._leases: dict[str, tuple[bytes, float]] = {}
        self._clock_offset_ms = (time.time() - time.monotonic()) * 1000
        self.generation = self._next_generation(store)

    def _next_generation(self, store: ByteStore) -> int:
        """Higher than any before, also than those of an index in Redis that this one replaces."""
        raw = store.get(LIFE, [GENERATION])[0]
        number = max(int(raw or b"0") + 1, self.now_ms())
        store.write([(LIFE, GENERATION, b"%d" % number)])
        return number

    def now_ms(self) -> int:
        """The clock as it stood when the server began, carried on by one that nobody sets."""
        return round(time.monotonic() * 1000 + self._clock_offset_ms)

    def execute(self, *command: Any) -> Any:
        name, args = command[0], [_encoded(arg) for arg in command[1:]]
        if name == "TIME":
            return [b"%d" % (self.now_ms() // 1000), b"%d" % (self.now_ms() % 1000 * 1000)]
        if name == "SET":
            return self._take_lease(*args)
        function = functions.plain(command[1]) if name == "FCALL" else ""
        if function in LEASE_FUNCTIONS:
            return self._use_lease(function, args[2].decode(), args[3:])
        tx = Transaction(self.keys)
        if function:
            call = Call(tx, args[2].decode(), self.now_ms())
            reply = FUNCTIONS[function](call, args[3:])
        else:
            reply = COMMANDS[name](self.keys, tx, args)
        tx.commit()
        return reply

    def _take_lease(self, key: bytes, owner: bytes, *options: bytes) -> bytes | None:
        """SET key owner NX PX ms. Leases end with the process, so they are kept in memory."""
        if options[:2] != (b"NX", b"PX"):
            raise ValueError("SET takes leases here and nothing else")
        if self._holder(key.decode()) is not None:
            return None
        self._leases[key.decode()] = (owner, time.monotonic() + int(options[2]) / 1000)
        return b"OK"

    def _use_lease(self, function: str, key: str, args: Sequence[bytes]) -> int:
        if self._holder(key) != args[0]:
            return 0
        if function == "kvcm_lease_keep":
            self._leases[key] = (args[0], time.monotonic() + int(args[1]) / 1000)
        else:
            self.end_lease(key)
        return 1

    def _holder(self, key: str) -> bytes | None:
        owner, ends_at = self._leases.get(key, (b"", 0.0))
        return owner if time.monotonic() < ends_at else None

    def lease_names(self) -> list[str]:
        return [key for key in self._leases if self._holder(key) is not None]

    def end_lease(self, key: str) -> None:
        self._leases.pop(key, None)


def _encoded(arg: Any) -> bytes:
    if isinstance(arg, bytes):
        return arg
    return arg.encode() if isinstance(arg, str) else str(arg).encode()
