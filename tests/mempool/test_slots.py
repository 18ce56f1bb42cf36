"""Who owns a slot: the rules, and random programs of an allocator against them."""

from __future__ import annotations

import mmap
import random
from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcm_platform.core.pool_layout import SLAB_BYTES, Place, SegmentLayout, SlotState, slot_class
from kvcm_platform.mempool_agent.slots import Refusal, Refused, Slots, held_in
from kvcm_platform.transfer.pool_memory import SegmentMemory, Superblock

MIB = 1 << 20
SLABS = 4
LAYOUT = SegmentLayout(SLABS)


def new_memory() -> SegmentMemory:
    return SegmentMemory(mmap.mmap(-1, LAYOUT.file_bytes), Superblock("a", "0" * 16, LAYOUT, 0))


@pytest.fixture
def slots() -> Slots:
    return Slots(new_memory())


def place(offset: int, size: int) -> Place:
    return LAYOUT.place(offset, size)


def refusal(call: object, *args: object) -> Refusal | None:
    assert callable(call)
    try:
        call(*args)
    except Refused as refused:
        return refused.refusal
    return None


def state(slots: Slots, where: Place, range_id: int) -> SlotState:
    return slots._memory.look(where, range_id).state


SMALL = place(0, 4096)


def test_a_range_is_opened_committed_and_released(slots: Slots) -> None:
    slots.open(SMALL, 5)
    assert state(slots, SMALL, 5) is SlotState.WRITING
    slots.open(SMALL, 5)
    slots.commit(SMALL, 5, 77)
    assert state(slots, SMALL, 5) is SlotState.COMMITTED
    assert (slots.held_blocks, slots.held_bytes) == (1, 4096)
    slots.release(SMALL, 5)
    assert state(slots, SMALL, 5) is SlotState.RELEASED
    assert (slots.held_blocks, slots.held_bytes) == (0, 0)
    slots.release(SMALL, 5)


def test_nothing_is_committed_that_was_not_opened(slots: Slots) -> None:
    assert refusal(slots.commit, SMALL, 5, 77) is Refusal.NOT_OPEN
    slots.open(SMALL, 4)
    assert refusal(slots.commit, SMALL, 5, 77) is Refusal.NOT_OPEN
    assert state(slots, SMALL, 4) is SlotState.WRITING


def test_what_was_committed_stays(slots: Slots) -> None:
    slots.open(SMALL, 5)
    slots.commit(SMALL, 5, 77)
    slots.commit(SMALL, 5, 77)
    assert slots.held_blocks == 1
    assert refusal(slots.commit, SMALL, 5, 78) is Refusal.COMMITTED
    with pytest.raises(Refused) as refused:
        slots.open(SMALL, 5)
    assert (refused.value.refusal, refused.value.checksum) == (Refusal.COMMITTED, 77)
    assert state(slots, SMALL, 5) is SlotState.COMMITTED


def test_an_earlier_range_is_refused(slots: Slots) -> None:
    slots.open(SMALL, 5)
    slots.commit(SMALL, 5, 77)
    assert refusal(slots.open, SMALL, 4) is Refusal.STALE
    assert refusal(slots.commit, SMALL, 4, 77) is Refusal.STALE
    slots.release(SMALL, 4)
    assert state(slots, SMALL, 5) is SlotState.COMMITTED


def test_a_later_range_takes_the_slot(slots: Slots) -> None:
    slots.open(SMALL, 5)
    slots.commit(SMALL, 5, 77)
    slots.open(SMALL, 6)
    assert state(slots, SMALL, 5) is SlotState.EMPTY
    assert slots.held_blocks == 0
    assert refusal(slots.commit, SMALL, 5, 77) is Refusal.STALE


def test_a_released_range_is_refused_though_it_never_came(slots: Slots) -> None:
    slots.release(SMALL, 5)
    assert refusal(slots.open, SMALL, 5) is Refusal.RELEASED
    assert refusal(slots.commit, SMALL, 5, 77) is Refusal.RELEASED
    assert refusal(slots.open, SMALL, 4) is Refusal.STALE


def test_a_release_ends_a_write(slots: Slots) -> None:
    slots.open(SMALL, 5)
    slots.release(SMALL, 5)
    assert refusal(slots.commit, SMALL, 5, 77) is Refusal.RELEASED
    assert not slots.is_writing(SMALL, 5)


def test_a_slab_is_carved_anew_by_later_ranges_alone(slots: Slots) -> None:
    other, larger = place(8192, 4096), place(0, 5000)
    slots.open(SMALL, 5)
    slots.open(other, 9)
    assert refusal(slots.open, larger, 8) is Refusal.STALE
    slots.release(larger, 8)
    assert state(slots, other, 9) is SlotState.WRITING
    slots.open(larger, 10)
    # Everything of the slab's earlier life is over, in whichever slot.
    for where, range_id in ((SMALL, 5), (other, 9), (SMALL, 8)):
        assert state(slots, where, range_id) is SlotState.EMPTY
        assert refusal(slots.open, where, range_id) is Refusal.STALE


def test_an_earlier_life_of_the_same_class_is_over_too(slots: Slots) -> None:
    other = place(8192, 4096)
    slots.open(other, 5)
    slots.open(place(0, 5000), 6)
    slots.open(SMALL, 7)
    assert refusal(slots.open, other, 5) is Refusal.STALE
    assert refusal(slots.commit, other, 5, 1) is Refusal.STALE
    assert refusal(slots.open, other, 6) is Refusal.STALE
    slots.open(other, 8)


def test_ranges_of_one_life_come_in_any_order(slots: Slots) -> None:
    slots.open(place(0, 5000), 6)
    slots.open(place(8192, 4096), 9)
    slots.open(SMALL, 8)
    assert refusal(slots.open, place(4096, 4096), 7) is None


def test_a_run_of_slabs_is_taken_over_as_one(slots: Slots) -> None:
    in_second = place(SLAB_BYTES, 4096)
    slots.open(in_second, 5)
    wide = place(0, 6 * MIB)
    assert len(wide.slabs) == 2
    assert refusal(slots.open, wide, 4) is Refusal.STALE
    slots.open(wide, 6)
    assert state(slots, in_second, 5) is SlotState.EMPTY
    # A small slot in the second slab ends the run that covered it.
    slots.open(in_second, 7)
    assert state(slots, wide, 6) is SlotState.EMPTY
    assert refusal(slots.commit, wide, 6, 1) is Refusal.STALE


def test_a_takeover_that_was_cut_short_is_finished_by_the_same_range(slots: Slots) -> None:
    slots.open(SMALL, 5)
    wide = place(0, 6 * MIB)
    words = slots._memory.slab_words
    before = list(words[:4])
    slots.open(wide, 6)
    # Killed before the first slab was carved, but for its floor and highest id.
    words[0], words[1], words[2] = before[0], 5, 6
    assert refusal(slots.open, SMALL, 5) is Refusal.STALE
    slots.open(wide, 6)
    slots.commit(wide, 6, 1)
    assert state(slots, wide, 6) is SlotState.COMMITTED


def test_held_ranges_are_listed_and_counted(slots: Slots) -> None:
    wide = place(2 * SLAB_BYTES, 6 * MIB)
    crossing = place(2 * SLAB_BYTES + 12 * MIB, 6 * MIB)
    for range_id, where in enumerate((SMALL, place(8192, 4000), wide, crossing), 1):
        slots.open(where, range_id)
        slots.commit(where, range_id, 1)
    slots.open(place(12288, 4096), 9)
    held = [(h.offset, h.size, h.range_id) for slab in range(SLABS) for h in held_in(slots._memory, slab)]
    assert held == [
        (0, 4096, 1),
        (8192, 4000, 2),
        (2 * SLAB_BYTES, 6 * MIB, 3),
        (2 * SLAB_BYTES + 12 * MIB, 6 * MIB, 4),
    ]
    assert (slots.held_blocks, slots.held_bytes) == (4, 8096 + 12 * MIB)
    again = Slots(slots._memory)
    assert (again.held_blocks, again.held_bytes) == (4, 8096 + 12 * MIB)
    slots.open(place(0, 5000), 20)
    assert (slots.held_blocks, slots.held_bytes) == (2, 12 * MIB)


class Allocator:
    """A naive one: runs are carved where slabs are free, ids rise, an empty run goes back."""

    def __init__(self) -> None:
        self.runs: dict[int, tuple[int, set[int]]] = {}
        self.ids = count(1)

    def allocate(self, size: int) -> tuple[Place, int] | None:
        kind = slot_class(size)
        for first, (slot, taken) in self.runs.items():
            if slot == kind.slot_bytes and len(taken) < kind.slots:
                return self._take(first, size)
        used = {
            s for first, (slot, _) in self.runs.items() for s in range(first, first + slot_class(slot).slabs)
        }
        for first in range(SLABS - kind.slabs + 1):
            if not used & set(range(first, first + kind.slabs)):
                self.runs[first] = (kind.slot_bytes, set())
                return self._take(first, size)
        return None

    def _take(self, first: int, size: int) -> tuple[Place, int]:
        slot, taken = self.runs[first]
        index = next(i for i in count() if i not in taken)
        taken.add(index)
        return place(first * SLAB_BYTES + index * slot, size), next(self.ids)

    def free(self, where: Place) -> None:
        slot, taken = self.runs[where.first_slab]
        taken.remove((where.offset - where.first_slab * SLAB_BYTES) // slot)
        if not taken:
            del self.runs[where.first_slab]


def steps(seed: int, length: int) -> Iterator[tuple[str, random.Random]]:
    chance = random.Random(seed)
    for _ in range(length):
        yield chance.choice(("allocate", "allocate", "open", "commit", "release", "stale", "restart")), chance


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_random_programs(seed: int) -> None:
    """Living ranges are never refused, dead ones always; what was committed stays until its release."""
    memory, allocator = new_memory(), Allocator()
    slots = Slots(memory)
    living: dict[int, tuple[Place, SlotState]] = {}
    dead: list[tuple[Place, int]] = []
    for step, chance in steps(seed, 120):
        if step == "allocate":
            found = allocator.allocate(chance.choice((4096, 3 * MIB, 5 * MIB, 6 * MIB, 16 * MIB, 20 * MIB)))
            if found is not None:
                living[found[1]] = (found[0], SlotState.EMPTY)
        elif step == "restart":
            slots = Slots(memory)
        elif step == "stale" and dead:
            where, range_id = chance.choice(dead)
            assert refusal(slots.open, where, range_id) in (Refusal.STALE, Refusal.RELEASED)
            assert refusal(slots.commit, where, range_id, 1) in (Refusal.STALE, Refusal.RELEASED)
            slots.release(where, range_id)
        elif living:
            range_id = chance.choice(list(living))
            where, was = living[range_id]
            if step == "open" and was is not SlotState.COMMITTED:
                slots.open(where, range_id)
                living[range_id] = (where, SlotState.WRITING)
            elif step == "commit" and was is not SlotState.EMPTY:
                slots.commit(where, range_id, range_id)
                living[range_id] = (where, SlotState.COMMITTED)
            elif step == "release":
                slots.release(where, range_id)
                allocator.free(where)
                del living[range_id]
                dead.append((where, range_id))
        for range_id, (where, is_now) in living.items():
            assert state(slots, where, range_id) is is_now
        held = [where.size for where, is_now in living.values() if is_now is SlotState.COMMITTED]
        assert (slots.held_blocks, slots.held_bytes) == (len(held), sum(held))
    assert all(state(slots, *one) in (SlotState.EMPTY, SlotState.RELEASED) for one in dead)
