"""What slots of a file have, seen by the holes of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvcm_platform.storage import files

SLOTS = 8


@pytest.mark.parametrize("size", [4096, 8192, 10_000, 18_432, 70_001, 1_124_352])
def test_a_punched_slot_has_no_data_whatever_its_neighbours_share_with_it(tmp_path: Path, size: int) -> None:
    """Slots that are no whole pages share their outer ones, which stay while a neighbour has data."""
    path = tmp_path / "file"
    path.write_bytes(b"\1" * size * SLOTS)
    for slot in (0, 3, SLOTS - 1):
        files.punch(str(path), slot * size, size)
    there = [files.has_data(str(path), slot * size, size) for slot in range(SLOTS)]
    assert there == [slot not in (0, 3, SLOTS - 1) for slot in range(SLOTS)]


@pytest.mark.parametrize("size", [512, 1500])
def test_slots_without_a_page_of_their_own_are_taken_to_be_there(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\1" * size * SLOTS)
    files.punch(str(path), size, size)
    assert all(files.has_data(str(path), slot * size, size) for slot in range(SLOTS))
    assert not files.has_data(str(path), SLOTS * size, size)


def test_slots_that_were_never_written(tmp_path: Path) -> None:
    path, size = tmp_path / "file", 18_432
    with path.open("wb") as file:
        file.seek(3 * size)
        file.write(b"\1" * size)
    assert [files.has_data(str(path), slot * size, size) for slot in range(5)] == [
        *[False, False, False, True, False]
    ]
