"""Who owns a slot: the rules of `core/pool_layout.py` on the words of a segment.

One thread calls it. Each change is ordered so that the agent may be killed between any two lines: the
owner word, written at once, is what makes a change take effect, and a slab's floor and highest id are
written before what they guard.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from kvcm_platform.core.pool_layout import (
    HEADER_WORDS,
    SLAB_BYTES,
    SLAB_WORDS,
    Place,
    SegmentLayout,
    SlotState,
    carving_word,
    owner_of,
    owner_word,
    slot_class,
    uncarved,
)
from kvcm_platform.transfer.pool_memory import SegmentMemory

_CARVING, _FLOOR, _HIGH = range(3)
_OWNER, _SIZE, _CHECKSUM, _COMMITTED_AT = range(4)


class Refusal(Enum):
    """Why a range may not do what it wants."""

    STALE = "the slot has a later owner"
    RELEASED = "the range was released"
    NOT_OPEN = "the range was not opened"
    COMMITTED = "the range was committed before"


class Refused(Exception):
    """`checksum`: what the range was committed with, for COMMITTED."""

    def __init__(self, refusal: Refusal, checksum: int = 0) -> None:
        super().__init__(refusal.value)
        self.refusal = refusal
        self.checksum = checksum


@dataclass(frozen=True, slots=True)
class Held:
    """A committed range."""

    offset: int
    size: int
    range_id: int
    committed_at_us: int


class Slots:
    """The slots of one segment. `held_*` count what is committed and not released."""

    def __init__(self, memory: SegmentMemory) -> None:
        self._memory = memory
        self._slabs = memory.slab_words
        self._headers = memory.header_words
        self.held_blocks, self.held_bytes = _count_held(memory)

    def open(self, place: Place, range_id: int) -> None:
        """Makes the range the owner of its slot, for writing. Raises Refused.

        Again while nothing was committed; a committed range is never opened again, it is read.
        """
        owner, state = self._owner(place, range_id)
        if owner == range_id and state is not SlotState.WRITING:
            raise self._refused(place, state)
        if owner != range_id:
            self._own(place, range_id, SlotState.WRITING)

    def commit(self, place: Place, range_id: int, checksum: int) -> None:
        """The payload is in the slot: from now on it is read. Again with the same checksum is fine.

        Raises Refused.
        """
        owner, state = self._owner(place, range_id)
        if owner != range_id:
            raise Refused(Refusal.NOT_OPEN)
        at = place.header * HEADER_WORDS
        if state is SlotState.WRITING:
            self._headers[at + _SIZE] = place.size
            self._headers[at + _CHECKSUM] = checksum
            self._headers[at + _COMMITTED_AT] = time.time_ns() // 1000
            self._headers[at] = owner_word(range_id, SlotState.COMMITTED)
            self.held_blocks += 1
            self.held_bytes += place.size
        elif state is SlotState.RELEASED or self._headers[at + _CHECKSUM] != checksum:
            raise self._refused(place, state)

    def release(self, place: Place, range_id: int) -> None:
        """The range is over: its bytes are not read any more, and who still writes it is refused.

        Fine for a range that lost its slot or never had one.
        """
        try:
            owner, state = self._owner(place, range_id)
        except Refused:
            return
        if owner != range_id or state is not SlotState.RELEASED:
            self._own(place, range_id, SlotState.RELEASED)

    def is_writing(self, place: Place, range_id: int) -> bool:
        return self._memory.look(place, range_id).state is SlotState.WRITING

    def _refused(self, place: Place, state: SlotState) -> Refused:
        if state is SlotState.RELEASED:
            return Refused(Refusal.RELEASED)
        return Refused(Refusal.COMMITTED, self._headers[place.header * HEADER_WORDS + _CHECKSUM])

    def _owner(self, place: Place, range_id: int) -> tuple[int, SlotState]:
        """The present owner of the slot: this range, one before it, or none (0). Raises Refused (STALE)."""
        if not self._is_carved_for(place):
            if range_id < max(self._word(slab, _HIGH) for slab in place.slabs):
                raise Refused(Refusal.STALE)
            return 0, SlotState.EMPTY
        floor = max(self._word(slab, _FLOOR) for slab in place.slabs)
        owner, state = owner_of(self._headers[place.header * HEADER_WORDS])
        if range_id <= floor or owner > range_id:
            raise Refused(Refusal.STALE)
        return (owner, state) if owner > floor else (0, SlotState.EMPTY)

    def _own(self, place: Place, range_id: int, state: SlotState) -> None:
        """Makes the range the owner. `_owner` said that it may."""
        if not self._is_carved_for(place):
            self._carve(place, range_id)
        at = place.header * HEADER_WORDS
        before = owner_of(self._headers[at])
        if before[1] is SlotState.COMMITTED and before[0] > self._word(place.first_slab, _FLOOR):
            self.held_blocks -= 1
            self.held_bytes -= self._headers[at + _SIZE]
        for slab in place.slabs:
            if self._word(slab, _HIGH) < range_id:
                self._slabs[slab * SLAB_WORDS + _HIGH] = range_id
        self._headers[at] = owner_word(range_id, state)

    def _carve(self, place: Place, range_id: int) -> None:
        """Takes the slabs of a run over: all ranges that were there before belong to an earlier life.

        Killed on the way, the same range may try again: its own id is then the highest in some slabs,
        and their floor is already right.
        """
        for slab in place.slabs:
            self._forget_held(slab)
        floor = max(
            self._word(slab, _FLOOR if self._word(slab, _HIGH) == range_id else _HIGH) for slab in place.slabs
        )
        word = carving_word(place.kind, place.first_slab)
        for slab in place.slabs:
            at = slab * SLAB_WORDS
            self._slabs[at + _FLOOR] = floor
            self._slabs[at + _HIGH] = range_id
            self._slabs[at + _CARVING] = word

    def _forget_held(self, slab: int) -> None:
        for size in _held_sizes(self._memory, slab):
            self.held_blocks -= 1
            self.held_bytes -= size

    def _is_carved_for(self, place: Place) -> bool:
        word = carving_word(place.kind, place.first_slab)
        return all(self._word(slab, _CARVING) == word for slab in place.slabs)

    def _word(self, slab: int, which: int) -> int:
        return self._slabs[slab * SLAB_WORDS + which]


def _count_held(memory: SegmentMemory) -> tuple[int, int]:
    """Blocks and bytes that are committed, for an agent that takes a segment over."""
    sizes = [size for slab in range(memory.layout.slabs) for size in _held_sizes(memory, slab)]
    return len(sizes), sum(sizes)


def _held_sizes(memory: SegmentMemory, slab: int) -> list[int]:
    return [held.size for held in held_in(memory, slab)]


def held_in(memory: SegmentMemory, slab: int) -> Iterator[Held]:
    """What is committed in slots that begin in this slab."""
    word, floor = memory.slab_words[slab * SLAB_WORDS], memory.slab_words[slab * SLAB_WORDS + _FLOOR]
    if not word:
        return
    slot_bytes, first = uncarved(word)
    run = first * SLAB_BYTES
    index = -(-(slab * SLAB_BYTES - run) // slot_bytes)
    offsets = range(run + index * slot_bytes, (slab + 1) * SLAB_BYTES, slot_bytes)
    offsets = offsets[: max(0, slot_class(slot_bytes).slots - index)]
    headers = np.frombuffer(memory.header_words, np.uint64).reshape(-1, HEADER_WORDS)
    places = np.arange(offsets.start, offsets.stop, offsets.step, dtype=np.int64)
    found = headers[SegmentLayout.header_index(places)]
    is_held = (found[:, _OWNER] & 3 == SlotState.COMMITTED) & (found[:, _OWNER] >> 2 > floor)
    for at in np.flatnonzero(is_held).tolist():
        owner, size, _, committed_at_us = found[at].tolist()
        yield Held(offsets[at], size, owner_of(owner)[0], committed_at_us)
