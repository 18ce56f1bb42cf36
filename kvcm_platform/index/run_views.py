"""Runs as reclaim looks at them: what of each may go now (core/reclaim/order.py). Reads only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvcm_platform.core.reclaim.order import RunView
from kvcm_platform.core.types import LocationStatus

from . import keyspace
from .ages import Run
from .codec import HEADER
from .shards import ShardRef

if TYPE_CHECKING:
    from .redis_index import RedisIndex

CHUNK = 512
"""Records a command: what a server is asked for at once does not hold up the reads of others."""
_WRITING, _SERVING, _DELETING = (
    LocationStatus.WRITING.value,
    LocationStatus.SERVING.value,
    LocationStatus.DELETING.value,
)
KEY = 8


@dataclass(frozen=True, slots=True)
class Sought:
    """Which blocks may go: finished by `written_before_ms` (the index's clock), on these storage numbers.

    `numbers` None = on any; `without` = on none of these.
    """

    written_before_ms: int
    numbers: Collection[int] | None = None
    without: Collection[int] = frozenset()

    def is_on(self, number: int) -> bool:
        return (self.numbers is None or number in self.numbers) and number not in self.without

    @property
    def is_anywhere(self) -> bool:
        return self.numbers is None and not self.without


@dataclass(frozen=True, slots=True)
class Poisoned:
    """A run that cannot be read, and why."""

    run: Run
    reason: str


@dataclass(slots=True)
class Looked:
    """What a look at some runs found; runs without anything to say are left out."""

    views: list[RunView] = field(default_factory=list)
    poisoned: list[Poisoned] = field(default_factory=list)


async def look(index: RedisIndex, runs: Sequence[Run], sought: Sought) -> Looked:
    """Looks at runs of any shards. Raises redis.RedisError."""
    found = Looked()
    by_shard: dict[ShardRef, list[Run]] = {}
    for run in runs:
        by_shard.setdefault(run.shard, []).append(run)
    known: list[tuple[Run, bytes]] = []
    blobs = await index.connection.pipeline(
        [
            ("HMGET", keyspace.runs(shard.base), *(run.name for run in part))
            for shard, part in by_shard.items()
        ]
    )
    for part, found_blobs in zip(by_shard.values(), blobs, strict=True):
        known += [(run, blob) for run, blob in zip(part, found_blobs, strict=True) if blob]
    if not sought.is_anywhere:
        known = await _elsewhere_left_out(index, known, sought)
    whole = []
    for run, blob in known:
        if len(blob) % KEY:
            found.poisoned.append(Poisoned(run, f"its list of blocks has {len(blob)} bytes"))
        else:
            whole.append((run, blob))
    records = await _records(index, [(run.shard, blob) for run, blob in whole])
    for run, blob in whole:
        own = [next(records) for _ in range(len(blob) // KEY)]
        try:
            view = view_of(run, own, sought)
        except ValueError as error:
            found.poisoned.append(Poisoned(run, str(error)))
        else:
            if view is not None:
                found.views.append(view)
    return found


async def _elsewhere_left_out(
    index: RedisIndex, known: Sequence[tuple[Run, bytes]], sought: Sought
) -> list[tuple[Run, bytes]]:
    """Only runs that may lie where they are sought: all of one lies on the storage of its first block."""
    firsts = await _records(index, [(run.shard, blob[:KEY]) for run, blob in known])
    kept = []
    for (run, blob), record in zip(known, firsts, strict=True):
        number = storage_of(run.name, record or b"")
        if number is None or sought.is_on(number):
            kept.append((run, blob))
    return kept


async def _records(index: RedisIndex, wanted: Sequence[tuple[ShardRef, bytes]]) -> Iterator[bytes | None]:
    """The records of packed keys, in order; those of one shard should come one behind the other."""
    commands: list[tuple[object, ...]] = []
    last: ShardRef | None = None
    for shard, blob in wanted:
        fields = [blob[at : at + KEY] for at in range(0, len(blob), KEY)]
        if shard == last and len(commands[-1]) + len(fields) <= CHUNK + 2:
            commands[-1] += tuple(fields)
        else:
            commands.append(("HMGET", keyspace.blocks(shard.base), *fields))
        last = shard
    parts = await index.connection.pipeline(commands) if commands else []
    return (record for part in parts for record in part)


def storage_of(run: bytes, record: bytes) -> int | None:
    """The storage number of the location that belongs to a run; None where there is none (any more)."""
    at = 0
    while at + HEADER <= len(record):
        if record[at + 5 : at + 15] == run:
            return int.from_bytes(record[at + 3 : at + 5])
        at += HEADER + int.from_bytes(record[at + 33 : at + 36])
    return None


def view_of(run: Run, records: Sequence[bytes | None], sought: Sought) -> RunView | None:
    """What of a run may go, by the records of its blocks; None = nothing, and nothing of it holds others up.

    Raises ValueError for a record that is not whole.
    """
    name, stride = run.name, run.instance.shards
    sizes: list[int] = []
    top = storage = written = 0
    guard = -1
    for place in range(len(records) - 1, -1, -1):
        record = records[place]
        if record is None:
            continue
        at = _place(record, name)
        if at is None or record[at] == _DELETING:
            continue
        time = int.from_bytes(record[at + 21 : at + 27])
        if record[at] == _WRITING or time > sought.written_before_ms:
            guard = run.depth + place * stride
            break
        if record[at] != _SERVING:
            raise ValueError(f"a location has the state {record[at]}")
        storage = int.from_bytes(record[at + 3 : at + 5])
        if not sizes:
            top, written = place, time
        if sought.is_on(storage):
            sizes.append(int.from_bytes(record[at + 15 : at + 21]))
    if not sizes and guard < 0:
        return None
    return RunView(
        *(run.instance.number, run.shard.shard, name, run.score, storage, tuple(sizes)),
        top=top,
        stride=stride,
        guard=guard,
        written_ms=written,
    )


def _place(record: bytes, run: bytes) -> int | None:
    """Where the location of a run begins in a record. Raises ValueError."""
    at, length = 0, len(record)
    while at < length:
        stop = at + HEADER + int.from_bytes(record[at + 33 : at + 36])
        if stop > length or at + HEADER > length:
            raise ValueError("a record ends before its last location does")
        if record[at + 5 : at + 15] == run:
            return at
        at = stop
    return None
