"""Why blocks left an instance: a capped stream a shard, written by whatever takes a block (lua/1_common.lua).

Kept for KVCM_EVICTIONS_KEPT_S, and for the last 16,384 or so calls that took something of a shard.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis

from kvcm_platform.core.registry import InstanceEntry

from . import codec, keyspace
from .placed_client import PlacedClient
from .shards import ShardRef, of_keys, shards_of

if TYPE_CHECKING:
    from .redis_index import RedisIndex

REMOVED = "remove"
"""An engine or an operator removed it."""
FAILED = "failed"
"""The engine said that it was not written."""
EXPIRED = "expired"
"""Its write was not finished in time."""
MOVED = "moved"
"""It went to another storage."""
LOST = "lost"
"""Its object was found missing."""
_RECLAIM, _TRIM, _CLEARED = "reclaim:", "trim:", "cleared:"
"""In front of the reclaim run's 16 hex digits, the id of the trim, the number of the storage."""

KEPT_SECONDS = 86_400
FORGET_MS = 60_000
"""What is older than it is kept goes this often."""
SHARDS_AT_ONCE = 256
PAGE = 64
"""Entries a look."""
LOOK_SECONDS = 1.0
MOST = 500


def trimmed(trim_id: str) -> str:
    return _TRIM + trim_id


def cleared(storage_number: int) -> str:
    """Nothing may stay on this storage number."""
    return f"{_CLEARED}{storage_number}"


@dataclass(frozen=True, slots=True)
class Gone:
    """When a location of a block went, in unix ms, and why: one of the reasons above."""

    at_ms: int
    reason: str
    key: int

    @property
    def run_id(self) -> str:
        """The reclaim run that took it, or empty."""
        return self.reason.removeprefix(_RECLAIM) if self.reason.startswith(_RECLAIM) else ""


def gone_of(
    client: redis.Redis | PlacedClient,
    entry: InstanceEntry,
    key: int,
    at_most: int,
    seconds: float = LOOK_SECONDS,
) -> list[Gone]:
    """Why locations of a block went, the newest first, as far as it is kept and found within `seconds`.

    Raises redis.RedisError.
    """
    number = int(of_keys([key], entry.shards)[0]) if entry.shards > 1 else 0
    wanted = codec.pack_keys([key])
    found: list[Gone] = []
    deadline = time.monotonic() + seconds
    for at_ms, reason, keys in _entries(client, keyspace.gone(shards_of(entry)[number].base)):
        if len(found) >= at_most or time.monotonic() > deadline:
            break
        if _holds(keys, wanted):
            found.append(Gone(at_ms, reason, key))
    return found


def gone_recent(client: redis.Redis | PlacedClient, entry: InstanceEntry, at_most: int) -> list[Gone]:
    """What went last, the newest first: `at_most` blocks, MOST at most. Raises redis.RedisError."""
    limit = min(at_most, MOST)
    found: list[Gone] = []
    for shard in shards_of(entry):
        here: list[Gone] = []
        for at_ms, reason, keys in _entries(client, keyspace.gone(shard.base)):
            here += [Gone(at_ms, reason, key) for key in codec.unpack_keys(keys)[: limit - len(here)]]
            if len(here) >= limit:
                break
        found += here
    return sorted(found, key=lambda one: -one.at_ms)[:limit]


async def forget_old(index: RedisIndex, shards: Sequence[ShardRef], kept_ms: int) -> bool:
    """Drops what is older than `kept_ms`, once a FORGET_MS whoever asks; False when it is not yet time.

    Raises redis.RedisError.
    """
    if not await index.connection.call("SET", keyspace.GONE_TRIMMED, "1", "NX", "PX", FORGET_MS):
        return False
    oldest = max(0, index.now_ms() - kept_ms)
    commands = [("XTRIM", keyspace.gone(shard.base), "MINID", "~", oldest) for shard in shards]
    for at in range(0, len(commands), SHARDS_AT_ONCE):
        await index.connection.pipeline(commands[at : at + SHARDS_AT_ONCE])
    return True


def _holds(keys: bytes, wanted: bytes) -> bool:
    at = keys.find(wanted)
    while at >= 0 and at % len(wanted):
        at = keys.find(wanted, at + 1)
    return at >= 0


def _entries(client: Any, name: str) -> Iterator[tuple[int, str, bytes]]:
    """(ms, reason, packed keys) of a stream, the newest first, read a page at a time."""
    server = client.of(name) if isinstance(client, PlacedClient) else client
    newest: str | bytes = "+"
    while True:
        page = server.xrevrange(name, newest, "-", count=PAGE)
        for entry_id, fields in page:
            yield int(entry_id.partition(b"-")[0]), fields[b"w"].decode(), fields[b"k"]
        if len(page) < PAGE:
            return
        newest = b"(" + page[-1][0]
