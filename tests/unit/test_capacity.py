"""Watermarks of a storage, and the room that is told about."""

from __future__ import annotations

import pytest

from kvcm_platform.core.capacity import ByteMarks, Room, Watermarks, free_room, fullest, is_worth_telling


@pytest.mark.parametrize(
    ("high", "low", "expected"),
    [
        (None, None, (1.0, 0.95)),
        (0.8, None, (0.8, 0.75)),
        (0.2, None, (0.2, 0.18)),
        (0.8, 0.5, (0.8, 0.5)),
        (None, 0.7, (1.0, 0.7)),
    ],
)
def test_defaults(high: float | None, low: float | None, expected: tuple[float, float]) -> None:
    marks = Watermarks.of(high, low)
    assert (marks.high, marks.low) == pytest.approx(expected)


def test_it_turns_at_the_high_mark_and_back_below_the_low_one() -> None:
    marks, is_over, said = Watermarks(0.9, 0.8), False, []
    for ratio in (0.5, 0.89, 0.9, 0.95, 0.85, 0.8, 0.79, 0.85, 0.91):
        is_over = marks.is_over(ratio, was_over=is_over)
        said.append(is_over)
    assert said == [False, False, True, True, True, True, False, False, True]


def test_the_tightest_limit_counts() -> None:
    own, device = Room(90, 100), Room(800, 1000)
    assert fullest([own, device]) is own
    assert fullest([Room(5, None), device]) is device
    assert Room(1, 0).ratio == 1.0


@pytest.mark.parametrize(
    ("rooms", "high", "expected"),
    [
        ([], 1.0, None),
        ([Room(7, None)], 1.0, None),
        ([Room(0, 6400)], 1.0, 6400),
        ([Room(150, 6400)], 1.0, 6200),
        ([Room(0, 6400)], 0.5, 3200),
        ([Room(0, 6400), Room(6350, 6400)], 1.0, 0),
        ([Room(9000, 6400)], 1.0, 0),
    ],
)
def test_room_in_steps(rooms: list[Room], high: float, expected: int | None) -> None:
    assert free_room(rooms, high) == expected


@pytest.mark.parametrize(
    ("told", "now", "expected"),
    [
        (None, None, False),
        (None, 100, True),
        (100, None, True),
        (6400, 6300, False),
        (6400, 6200, True),
        (100, 0, True),
        (0, 100, True),
        (0, 0, False),
    ],
)
def test_what_is_worth_telling(told: int | None, now: int | None, expected: bool) -> None:
    assert is_worth_telling(told, now, 6400) is expected


@pytest.mark.parametrize(
    ("marks", "held", "own", "device", "expected"),
    [
        # Its own capacity: at 80 of 100 groups give back, until it takes new blocks again: below 75.
        ((0.8, None), 10, Room(10, 100), None, (80, 74)),
        ((None, None), 10, Room(10, 100), None, (100, 94)),
        ((0.29, 0.0), 0, Room(0, 100), None, (29, 0)),
        # A device of 1000, all of it the index's: as its own capacity.
        ((0.8, 0.5), 700, None, Room(700, 1000), (800, 499)),
        # Others have 300 of it, so the index may have 500 there, and 200 at the low mark.
        ((0.8, 0.5), 100, None, Room(400, 1000), (500, 199)),
        # They have 600: the low mark is theirs, so a tenth of the 200 that are left has to do.
        ((0.8, 0.5), 100, None, Room(700, 1000), (200, 179)),
        # They have 900: whatever is given back, the device stays above its mark.
        ((0.8, 0.5), 50, None, Room(950, 1000), None),
        # Both: the tighter one, each mark for itself.
        ((0.8, 0.5), 100, Room(100, 600), Room(400, 1000), (480, 199)),
        ((0.8, 0.5), 50, Room(50, 600), Room(950, 1000), (480, 299)),
        ((0.8, None), 10, Room(10, 0), None, (0, 0)),
        ((0.8, None), 10, None, None, None),
    ],
)
def test_marks_in_bytes_of_the_index(
    marks: tuple[float | None, float | None],
    held: int,
    own: Room | None,
    device: Room | None,
    expected: tuple[int, int] | None,
) -> None:
    found = ByteMarks.of(Watermarks.of(*marks), held_bytes=held, own=own, device=device)
    assert (None if found is None else (found.high, found.low)) == expected


def test_a_storage_without_room_is_over_its_mark_while_it_holds_anything() -> None:
    assert ByteMarks(0, 0).is_over(1)
    assert not ByteMarks(0, 0).is_over(0)
    assert ByteMarks(80, 74).is_over(80)
    assert not ByteMarks(80, 74).is_over(79)
