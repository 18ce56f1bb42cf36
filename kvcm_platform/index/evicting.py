"""Marks what a reclaim run chose, and keeps its account until the last byte is freed.

A location that was evicted names its run on the list of pending deletions, and each shard keeps what
every run marked and what became of it (index/lua/3_eviction.lua): the figures of a run are right,
whoever dies in between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from . import codec, keyspace
from .connection import Fenced, IndexUnavailable, StaleGeneration
from .shards import ShardRef
from .storage_refs import number_of

if TYPE_CHECKING:
    from .ages import Run
    from .redis_index import RedisIndex

CALL_BLOCKS = 128
"""Blocks that one call marks: reads must not wait for more (DESIGN 4.1)."""
SHARDS_AT_ONCE = 256
RUN_ID = codec.RUN_ID
_NOT_OF_A_RUN = (Fenced, IndexUnavailable, StaleGeneration)
"""Errors that say nothing about what was to be evicted."""


@dataclass(frozen=True, slots=True)
class Victim:
    """So many blocks of a run go at most, from its tail; none if the run was used since it was looked at."""

    run: Run
    most_blocks: int


@dataclass(slots=True)
class Evicted:
    """What was marked.

    `blocks` are locations, `size` their bytes. `used_meanwhile` names runs that were used since they
    were looked at. `young` counts blocks that were passed over because they, or blocks behind them, are
    being written or were finished a moment ago. `by_number`: storage number -> (blocks, bytes).
    `poisoned`: (run, reason) of runs whose records cannot be read; nothing of them was touched.
    """

    blocks: int = 0
    size: int = 0
    used_meanwhile: list[bytes] = field(default_factory=list)
    young: int = 0
    by_number: dict[int, tuple[int, int]] = field(default_factory=dict)
    poisoned: list[tuple[bytes, str]] = field(default_factory=list)

    def add(self, other: Evicted) -> None:
        self.blocks += other.blocks
        self.size += other.size
        self.used_meanwhile += other.used_meanwhile
        self.young += other.young
        self.poisoned += other.poisoned
        for number, (blocks, size) in other.by_number.items():
            known = self.by_number.get(number, (0, 0))
            self.by_number[number] = (known[0] + blocks, known[1] + size)


@dataclass(frozen=True, slots=True)
class RunAccount:
    """Blocks and bytes of one reclaim run, over the shards that were asked.

    `refused_*` wait because their storage refused their deletion, `orphaned_*` will stay on a storage
    that is not known any more. What is neither freed, refused nor orphaned waits for its time.
    """

    marked_blocks: int = 0
    marked_bytes: int = 0
    freed_blocks: int = 0
    freed_bytes: int = 0
    refused_blocks: int = 0
    refused_bytes: int = 0
    orphaned_blocks: int = 0
    orphaned_bytes: int = 0

    @property
    def waiting_blocks(self) -> int:
        """Those that are still pending, refused ones included."""
        return self.marked_blocks - self.freed_blocks - self.orphaned_blocks

    @property
    def failed_blocks(self) -> int:
        return self.refused_blocks + self.orphaned_blocks

    @property
    def failed_bytes(self) -> int:
        return self.refused_bytes + self.orphaned_bytes

    def plus(self, amounts: Sequence[int]) -> RunAccount:
        """`amounts` in the order of the fields."""
        return RunAccount(*(getattr(self, name) + n for name, n in zip(_FIELDS, amounts, strict=True)))


_FIELDS = tuple(one.name for one in fields(RunAccount))
_WHAT = ("m", "mb", "f", "fb", "x", "xb", "o", "ob")
"""The same in the hash of a shard (lua/1_common.lua)."""


async def evict(
    index: RedisIndex,
    shard: ShardRef,
    victims: Iterable[Victim],
    *,
    run_id: bytes,
    delay_ms: int,
    written_before_ms: int,
    numbers: Collection[int] | None,
) -> Evicted:
    """Marks blocks of runs of one shard DELETING, in the order of `victims`; they are freed `delay_ms` later.

    `run_id`: RUN_ID bytes. Only blocks go that were finished by `written_before_ms` (the index's clock)
    and whose location in the run is on one of the storage `numbers` (None = any). May be repeated.
    Raises redis.RedisError; what was marked by then stays marked and is on the run's account.
    """
    if len(run_id) != RUN_ID:
        raise ValueError(f"the id of a reclaim run has {RUN_ID} bytes")
    packed = b"" if numbers is None else b"".join(n.to_bytes(2) for n in sorted(numbers))
    head = (run_id, delay_ms, written_before_ms, packed)
    total = Evicted()
    waiting = [victim for victim in victims if victim.most_blocks > 0]
    if numbers is not None and not numbers:
        return total
    try:
        at = 0
        while at < len(waiting):
            done, part = await _call(index, shard, head, waiting[at : at + _fitting(waiting, at)])
            total.add(part)
            at += done
    finally:
        if waiting:
            index.pusher.mark(shard)
            index.on_removal(waiting[0].run.instance)
    return total


def _fitting(waiting: Sequence[Victim], at: int) -> int:
    """How many victims from `at` on go into one call."""
    count = blocks = 0
    for victim in waiting[at : at + CALL_BLOCKS]:
        blocks += victim.most_blocks
        if count and blocks > CALL_BLOCKS:
            break
        count += 1
    return count


async def _call(
    index: RedisIndex, shard: ShardRef, head: tuple[Any, ...], victims: Sequence[Victim]
) -> tuple[int, Evicted]:
    """One call; how many of the victims were dealt with, and what became of them."""
    args = [
        part
        for victim in victims
        for part in (victim.run.name, victim.run.score, min(victim.most_blocks, CALL_BLOCKS))
    ]
    try:
        reply = await index.function("kvcm_evict", shard.base, *head, *args)
    except _NOT_OF_A_RUN:
        raise
    except RedisError as error:
        # Something in the way of these runs that the function did not expect. Each is tried by itself.
        if len(victims) == 1:
            return 1, Evicted(poisoned=[(victims[0].run.name, str(error))])
        found = Evicted()
        for victim in victims:
            _, part = await _call(index, shard, head, [victim])
            found.add(part)
        return len(victims), found
    return _decoded(reply)


def _decoded(reply: list[Any]) -> tuple[int, Evicted]:
    done, young, used, poisoned, by_ref = reply
    found = Evicted(used_meanwhile=list(used), young=young)
    pairs = zip(poisoned[::2], poisoned[1::2], strict=True)
    found.poisoned = [(name, reason.decode(errors="replace")) for name, reason in pairs]
    for ref, blocks, size in zip(by_ref[::3], by_ref[1::3], by_ref[2::3], strict=True):
        found.add(Evicted(blocks, int(size), by_number={number_of(ref): (blocks, int(size))}))
    return done, found


async def accounts(
    index: RedisIndex, shards: Iterable[ShardRef], run_ids: Iterable[bytes]
) -> dict[bytes, RunAccount]:
    """What these runs did and what became of it, over all these shards together. Raises redis.RedisError."""
    ids = list(dict.fromkeys(run_ids))
    found = {run_id: RunAccount() for run_id in ids}
    if not ids:
        return found
    names = [f"{run_id.hex()}:{what}" for run_id in ids for what in _WHAT]
    commands = [("HMGET", keyspace.evictions(shard.base), *names) for shard in shards]
    for at in range(0, len(commands), SHARDS_AT_ONCE):
        for reply in await index.connection.pipeline(commands[at : at + SHARDS_AT_ONCE]):
            amounts = [int(raw or 0) for raw in reply]
            for number, run_id in enumerate(ids):
                part = amounts[number * len(_WHAT) : (number + 1) * len(_WHAT)]
                if any(part):
                    found[run_id] = found[run_id].plus(part)
    return found


async def forget_accounts(index: RedisIndex, shards: Iterable[ShardRef], run_ids: Iterable[bytes]) -> None:
    """Takes these runs out of the shards' books: nothing of them is pending. Raises redis.RedisError."""
    names = [f"{run_id.hex()}:{what}" for run_id in run_ids for what in _WHAT]
    if not names:
        return
    commands = [("HDEL", keyspace.evictions(shard.base), *names) for shard in shards]
    for at in range(0, len(commands), SHARDS_AT_ONCE):
        await index.connection.pipeline(commands[at : at + SHARDS_AT_ONCE])
