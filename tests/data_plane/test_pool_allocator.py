"""Memory of a segment (index/lua/9_pool.lua and its twin) against a naive model, and by single rules."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvcm_platform.core.pool_layout import SLAB_BYTES, SlotClass, slot_class
from kvcm_platform.index import keyspace, registry
from tests.support.pools import SegmentCalls

NUMBER = 101
BASE = keyspace.storage(NUMBER)
SIZES = [1, 4096, 5000, 300_000, 1 << 20, 3 << 20, (5 << 20) + 1, 12 << 20, 16 << 20, 17 << 20, 40 << 20]
SLABS = 16
PAGE = 1024
"""Slabs of a page of the map: no run goes over its end."""


def place_of(run: int, slot: int, kind: SlotClass) -> tuple[int, int]:
    """(first byte, byte behind the last)."""
    offset = run * SLAB_BYTES + slot * kind.slot_bytes
    return offset, offset + kind.slot_bytes


@pytest.fixture
def segment(client) -> SegmentCalls:
    registry.ensure_functions(client)
    return SegmentCalls(client, slabs=SLABS)


@dataclass
class Model:
    """Runs of slabs by their first slab: the class, and the taken slots with their ids."""

    slabs: int
    runs: dict[int, tuple[SlotClass, dict[int, int]]] = field(default_factory=dict)
    newest: int = 0

    def free_run(self, length: int) -> int | None:
        used = {slab for first, (kind, _) in self.runs.items() for slab in range(first, first + kind.slabs)}
        fits = (
            first
            for first in range(self.slabs - length + 1)
            if first // PAGE == (first + length - 1) // PAGE and used.isdisjoint(range(first, first + length))
        )
        return next(fits, None)

    def slots(self, kind: SlotClass) -> Iterator[tuple[int, int]]:
        """Free slots of a class, lowest first; opens runs for them."""
        while True:
            for first in sorted(self.runs):
                other, taken = self.runs[first]
                if other == kind:
                    yield from ((first, slot) for slot in range(kind.slots) if slot not in taken)
            first = self.free_run(kind.slabs)
            if first is None:
                return
            self.runs[first] = (kind, {})

    def take(self, wanted: list[tuple[int, int]]) -> list[tuple[int, int]] | None:
        places: list[tuple[int, int]] = []
        before = {first: (kind, dict(taken)) for first, (kind, taken) in self.runs.items()}
        for size, count in wanted:
            kind = slot_class(size)
            for _ in range(count):
                place = next(self.slots(kind), None)
                if place is None:
                    self.runs = before
                    return None
                self.runs[place[0]][1][place[1]] = 0
                places.append(place)
        return places

    def named(self, ranges: list[tuple[int, int, int]]) -> None:
        for number, run, slot in ranges:
            assert number > self.newest, "an id came twice"
            self.newest = number
            self.runs[run][1][slot] = number

    def free(self, ids: set[int]) -> int:
        count = 0
        for first, (_, taken) in list(self.runs.items()):
            for slot in [slot for slot, number in taken.items() if number in ids]:
                del taken[slot]
                count += 1
            if not taken:
                del self.runs[first]
        return count

    def ids(self) -> list[int]:
        return [number for _, taken in self.runs.values() for number in taken.values()]

    def check(self, segment: SegmentCalls) -> None:
        places = sorted(
            place_of(first, slot, kind) for first, (kind, taken) in self.runs.items() for slot in taken
        )
        assert all(before[1] <= after[0] for before, after in zip(places, places[1:], strict=False))
        assert not places or places[-1][1] <= self.slabs * SLAB_BYTES
        figures = segment.figures()
        assert figures.ranges == len(places)
        assert figures.used_slabs == sum(kind.slabs for kind, _ in self.runs.values())
        by_slot = {}
        for kind, taken in self.runs.values():
            ranges, slabs = by_slot.get(kind.slot_bytes, (0, 0))
            by_slot[kind.slot_bytes] = (ranges + len(taken), slabs + kind.slabs)
        assert figures.by_slot == by_slot


def run_program(
    segment: SegmentCalls, steps: int, seed: int, most: int = 12, sizes: Sequence[int] = SIZES
) -> None:
    choose, model = random.Random(seed), Model(segment.slabs)
    freed: list[int] = []
    for _ in range(steps):
        if choose.random() < 0.55:
            wanted = [(choose.choice(sizes), choose.randint(1, most)) for _ in range(choose.randint(1, 3))]
            expected = model.take(wanted)
            if expected is None:
                assert segment.ask(wanted)[0] == b"FULL"
            else:
                ranges = segment.take(wanted)
                assert [(run, slot) for _, run, slot in ranges] == expected
                model.named(ranges)
        else:
            known = model.ids()
            going = choose.sample(known, choose.randint(0, len(known)))
            again = choose.sample(freed, min(3, len(freed)))
            assert segment.free(going + again) == model.free(set(going)) == len(going)
            freed += going
        model.check(segment)
    left = model.ids()
    assert segment.free(left) == len(left)
    assert segment.keys() == []
    assert segment.figures().used_slabs == 0


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1 << 32))
def test_random_programs_give_what_the_model_gives(segment, seed):
    segment.number += 1
    run_program(segment, 40, seed)


def test_a_map_of_several_pages(segment):
    """A segment of 34 GiB, in blocks of a slab and more."""
    segment.slabs = 2 * PAGE + 70
    run_program(segment, 40, 1, most=150, sizes=[16 << 20, 40 << 20, 100 << 20])


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_long_program_gives_what_the_model_gives(segment):
    run_program(segment, 3000, 4711)


def test_many_ranges_of_one_call(segment):
    ranges = segment.take([(4096, 512)])
    assert [(run, slot) for _, run, slot in ranges] == [(0, slot) for slot in range(512)]
    ids = [number for number, _, _ in ranges]
    assert ids == list(range(ids[0], ids[0] + 512))
    # What is free again is given out again, under new ids.
    assert segment.free(ids[3:7]) == 4
    again = segment.take([(4096, 5)])
    assert [slot for _, _, slot in again] == [3, 4, 5, 6, 512]
    assert min(number for number, _, _ in again) > max(ids)


def test_a_segment_that_is_full_gives_nothing_at_all(segment):
    segment.take([(16 << 20, SLABS - 1)])
    assert segment.ask([(4096, 3), (16 << 20, 1)]) == [b"FULL", 1]
    assert segment.figures().used_slabs == SLABS - 1
    assert len(segment.take([(4096, 512)])) == 512


def test_blocks_of_several_slabs_lie_side_by_side(segment):
    kind = slot_class(40 << 20)
    ranges = segment.take([(40 << 20, 1), (4096, 1), (40 << 20, 1)])
    sizes = (40 << 20, 4096, 40 << 20)
    spans = sorted(
        place_of(run, slot, slot_class(size)) for (_, run, slot), size in zip(ranges, sizes, strict=True)
    )
    assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:], strict=False))
    assert segment.figures().used_slabs % kind.slabs in {0, 1}


def test_giving_back_twice_takes_nothing_from_the_next_owner(segment):
    ((first, run, slot),) = segment.take([(1 << 20, 1)])
    assert segment.free([first]) == 1
    ((second, *place),) = segment.take([(1 << 20, 1)])
    assert place == [run, slot]
    assert segment.free([first, first]) == 0
    assert segment.figures().ranges == 1
    assert segment.free([second]) == 1


def test_an_emptied_run_serves_other_sizes(segment):
    small = segment.take([(4096, 512)])
    assert [run for _, run, _ in segment.take([(1 << 20, 1)])] == [1]
    segment.free([number for number, _, _ in small])
    assert [run for _, run, _ in segment.take([(3 << 20, 1)])] == [0]


def test_nothing_is_taken_too_late(segment):
    now = int(segment.client.time()[0]) * 1000
    assert segment.ask([(4096, 1)], insert_by=now - 1000) == [b"LATE"]
    assert segment.figures().ranges == 0


def test_a_lost_segment_gives_nothing_more(segment):
    ranges = segment.take([(4096, 3), (1 << 20, 3)])
    segment.call("kvcm_pool_drop")
    assert segment.ask([(4096, 1)]) == [b"GONE"]
    assert segment.free([number for number, _, _ in ranges]) == 0
    assert segment.keys() == []
    assert segment.client.zrange(keyspace.pool_lease_deadlines(BASE), 0, -1) == []
    assert not any(segment.client.zcard(keyspace.pool_runs_with_room(BASE, size)) for size in (4096, 1 << 20))


def test_ids_rise_over_a_rollback(segment):
    """What the server forgot was given out all the same; its clock may stand back a little, too."""
    segment.client.hset(BASE, "gen", segment.generation)
    last = segment.take([(4096, 512)])[-1][0]
    for name in (BASE, keyspace.pool_ranges(BASE), keyspace.pool_runs(BASE)):
        segment.client.delete(name)
    segment.client.delete(keyspace.pool_runs_with_room(BASE, 4096))
    segment.generation += 1
    assert segment.take([(4096, 1)])[0][0] > last + 1_000_000


def test_a_range_that_was_forgotten_is_taken_again(segment):
    kind = slot_class(1 << 20)
    args = (kind.slot_bytes, kind.slabs, kind.slots, SLABS)
    (first, second) = segment.take([(1 << 20, 2)])
    assert segment.call("kvcm_pool_restore", first[0], 0, 0, *args) == 0  # it is taken
    segment.free([first[0]])
    assert segment.call("kvcm_pool_restore", first[0], 0, 0, *args) == 1
    assert segment.call("kvcm_pool_restore", first[0] - 70, 3, 1, *args) == 1  # opens a run
    assert segment.call("kvcm_pool_restore", first[0] - 71, 3, 1, *args) == 0  # another has it
    assert segment.figures().by_slot == {1 << 20: (3, 2)}
    assert [slot for _, run, slot in segment.take([(1 << 20, 15)]) if run == 0] == list(range(2, 16))
    assert segment.free([first[0], second[0], first[0] - 70]) == 3


@pytest.mark.redis_only
def test_one_index_gives_out_a_segment(segment):
    assert segment.call("kvcm_pool_home", "node-a") == 1
    assert segment.call("kvcm_pool_home", "node-a") == 1
    assert segment.call("kvcm_pool_home", "node-b") == 0
    assert segment.ask([(4096, 1)]) == [b"HOME", b"node-a"]
    other = SegmentCalls(segment.client, NUMBER + 1)
    other.take([(4096, 1)])
    assert other.call("kvcm_pool_home", "node-a") == 0
