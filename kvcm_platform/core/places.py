"""Places for the blocks of a write: quota, then memory where a storage is a memory pool (DESIGN 4.4).

A file storage names its places by itself. Of a memory pool they are taken from one of its segments;
one that is full is passed over for the next candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .errors import Code, DomainError
from .registry import StorageEntry

if TYPE_CHECKING:
    from .ports import BlockIndex, WritePlan


@dataclass(frozen=True, slots=True)
class RangeRun:
    """Ranges whose ids follow each other, in slots that do too. `offset` is that of the first, in bytes."""

    first_id: int
    offset: int
    slot_bytes: int
    count: int

    @property
    def ids(self) -> range:
        return range(self.first_id, self.first_id + self.count)

    def ranges(self) -> Iterator[tuple[int, int]]:
        """(id, offset) of each."""
        end = self.offset + self.count * self.slot_bytes
        return zip(self.ids, range(self.offset, end, self.slot_bytes), strict=True)


@dataclass(frozen=True, slots=True)
class PoolPlaces:
    """Memory of one segment, known by its number and its node, for the blocks of a plan.

    `runs` has the ranges of each of the instance's shards: for each shape of its blocks, for each
    spec of the shape, one range a block.
    """

    number: int
    node_id: str
    runs: Mapping[int, Sequence[RangeRun]]


class NoRoom(DomainError):
    """The storages that were to take blocks have no memory left for them; the message names each."""

    def __init__(self, reason: str) -> None:
        super().__init__(Code.IO_ERROR, reason)


async def reserve(
    index: BlockIndex, plan: WritePlan, candidates: Sequence[StorageEntry]
) -> tuple[WritePlan, StorageEntry]:
    """The first candidate with room for the plan's blocks, and the plan with their places there.

    Its bytes are reserved against the quotas by then. Raises CAPACITY where quotas have no room, and
    NoRoom where all candidates are memory pools that have none.
    """
    left, full, reasons = list(candidates), list[StorageEntry](), list[str]()
    while True:
        try:
            storage = await index.reserve(plan, left)
        except DomainError as error:
            if full and error.code is Code.CAPACITY:
                raise DomainError(error.code, "; ".join([error.message, *reasons])) from error
            raise
        try:
            places = await index.allocate(plan, storage)
        except NoRoom as error:
            await index.release(plan)
            full.append(storage)
            reasons.append(error.message)
            left.remove(storage)
            if not left:
                await index.out_of_memory(plan, full)
                text = "; ".join(reasons)
                raise NoRoom(f"group {plan.group.name} has no storage with room ({text})") from error
            continue
        if places is None:
            return plan, storage
        return replace(plan, places=places[1]), places[0]
