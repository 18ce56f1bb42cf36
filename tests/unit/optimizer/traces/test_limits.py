"""What ingest bounds, what it tells on the way, and what it leaves behind: a whole trace or nothing."""

from __future__ import annotations

import errno
import gzip
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard

from kvcm_platform.optimizer.generate import generate_into
from kvcm_platform.optimizer.traces import TraceReadError, directories, ingest, open_trace
from tests.support.small_disk import small_disk

from .reading import write_lines


def mooncake(count: int) -> list[dict[str, Any]]:
    return [
        {"timestamp": n, "input_length": 512, "output_length": 1, "hash_ids": [0, n + 1]}
        for n in range(count)
    ]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "source", mooncake(300))


class TestLimits:
    @pytest.mark.parametrize(
        ("options", "code"),
        [
            ({"max_requests": 299}, "too_many_requests"),
            ({"max_bytes": 9_999}, "too_large"),
            ({"block_tokens": 0}, "bad_option"),
            ({"block_bytes": -1}, "bad_option"),
            ({"block_tokens": 2**70}, "bad_option"),
            ({"block_bytes": 2**62}, "bad_option"),
        ],
    )
    def test_they_are_errors_with_a_code(
        self, options: dict[str, int], code: str, source: Path, tmp_path: Path
    ) -> None:
        with pytest.raises(TraceReadError) as refused:
            ingest(source, tmp_path / "t", **options)  # type: ignore[arg-type]
        assert refused.value.code == code
        assert [path.name for path in tmp_path.iterdir()] == ["source"]

    def test_what_is_within_them_is_read(self, source: Path, tmp_path: Path) -> None:
        size = source.stat().st_size
        assert ingest(source, tmp_path / "t", max_requests=300, max_bytes=size).requests == 300

    def test_a_packed_bomb_stops_at_the_limit(self, tmp_path: Path) -> None:
        packed = zstandard.compress(b" " * (1 << 28))
        (tmp_path / "a").write_bytes(packed)
        with pytest.raises(TraceReadError) as refused:
            ingest(tmp_path / "a", tmp_path / "t", source_format="mooncake", max_bytes=1 << 24)
        assert refused.value.code == "too_large"

    def test_a_line_without_end_is_a_bad_one(self, tmp_path: Path) -> None:
        good = json.dumps(mooncake(1)[0]).encode()
        (tmp_path / "a").write_bytes(good + b"\n" + b"[" * ((64 << 20) + 5) + b"\n" + good)
        trace = ingest(tmp_path / "a", tmp_path / "t")
        assert trace.requests == 2
        assert [(bad.number, bad.reason) for bad in trace.header.bad_lines] == [
            (2, "longer than 67,108,864 bytes")
        ]

    def test_numbers_that_do_not_fit_are_bad_lines(self, tmp_path: Path) -> None:
        made = mooncake(5)
        made[1]["input_length"] = 2**31
        made[2]["timestamp"] = 1e30
        made[3]["hash_ids"] = [2**63]
        trace = ingest(write_lines(tmp_path / "a", made), tmp_path / "t")
        assert trace.requests == 2
        assert [bad.number for bad in trace.header.bad_lines] == [2, 3, 4]

    @pytest.mark.parametrize("at", [1e308, -1e308])
    def test_a_time_that_no_integer_holds_is_a_bad_line(self, at: float, tmp_path: Path) -> None:
        made = mooncake(3)
        made[1]["timestamp"] = at
        trace = ingest(write_lines(tmp_path / "a", made), tmp_path / "t")
        assert [(bad.number, bad.reason) for bad in trace.header.bad_lines] == [(2, "a time out of range")]

    def test_more_tokens_than_positions_can_be_summed_up_of_are_a_bad_line(self, tmp_path: Path) -> None:
        made = [*mooncake(2), {**mooncake(1)[0], "hash_ids": list(range(2049))}]
        trace = ingest(write_lines(tmp_path / "a", made), tmp_path / "t", block_tokens=1 << 20)
        assert [bad.number for bad in trace.header.bad_lines] == [3]

    def test_the_mark_of_an_editor_is_no_part_of_the_first_line(self, tmp_path: Path) -> None:
        raw = write_lines(tmp_path / "source", mooncake(3)).read_bytes()
        (tmp_path / "a").write_bytes(b"\xef\xbb\xbf" + raw.replace(b"\n", b"\r\n"))
        trace = ingest(tmp_path / "a", tmp_path / "t")
        assert (trace.requests, trace.header.bad_line_count) == (3, 0)

    def test_notes_are_bounded(self, tmp_path: Path) -> None:
        lookup = {"source": "i", "trigger_time_us": 1, "type": "GetCacheLocation", "keys": [1]}
        others = [{**lookup, "type": f"Other{n}"} for n in range(300)]
        trace = ingest(write_lines(tmp_path / "a", [lookup, *others]), tmp_path / "t")
        assert len(trace.header.notes) == 101
        # One is of the block size, 99 are of events.
        assert "201 x something else left out or assumed" in trace.header.notes

    @pytest.mark.parametrize(
        ("member", "value"), [("block_tokens", 0), ("block_tokens", 2**40), ("block_bytes", -1)]
    )
    def test_sizes_of_blocks_that_cannot_be_are_no_trace(
        self, member: str, value: int, source: Path, tmp_path: Path
    ) -> None:
        """The header of a Parquet file goes the same way."""
        ingest(source, tmp_path / "t")
        header = json.loads((tmp_path / "t" / "header.json").read_bytes())
        header["instances"][0][member] = value
        (tmp_path / "t" / "header.json").write_text(json.dumps(header))
        with pytest.raises(TraceReadError, match=f"blocks of {value}") as refused:
            open_trace(tmp_path / "t")
        assert refused.value.code == "not_a_trace"

    def test_sizes_that_a_capture_says_and_cannot_be_are_bad_lines(self, tmp_path: Path) -> None:
        told = {"instance_id": "i", "block_tokens": 16, "block_bytes": 2**63}
        lookup = {"source": "i", "trigger_time_us": 1, "type": "GetCacheLocation", "keys": [1]}
        records = [{"kvcm_capture": 1, "instances": [told]}, lookup]
        trace = ingest(write_lines(tmp_path / "a", records), tmp_path / "t")
        assert [bad.number for bad in trace.header.bad_lines] == [1]

    def test_nothing_usable_is_an_error_that_says_why(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b'{"timestamp": "x"}\n')
        with pytest.raises(TraceReadError, match="no requests; line 1: timestamp is not a number") as refused:
            ingest(tmp_path / "a", tmp_path / "t", source_format="mooncake")
        assert refused.value.code == "empty_trace"

    @pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
    def test_a_packed_file_that_is_cut_off_is_told(self, pack: Any, tmp_path: Path) -> None:
        """And what could be unpacked is used."""
        raw = write_lines(tmp_path / "source", mooncake(20_000)).read_bytes()
        packed = pack(raw)
        (tmp_path / "a").write_bytes(packed + b"\0" * 512)
        assert ingest(tmp_path / "a", tmp_path / "whole").header.bad_line_count == 0
        (tmp_path / "b").write_bytes(packed[: len(packed) * 3 // 4])
        trace = ingest(tmp_path / "b", tmp_path / "t")
        assert 10_000 < trace.requests < 16_000
        assert trace.header.bad_line_count in (1, 2)  # Perhaps with the line that the cut goes through.
        assert "its last frame is not whole" in trace.header.bad_lines[-1].reason

    def test_a_damaged_checksum_is_told(self, tmp_path: Path) -> None:
        source = write_lines(tmp_path / "source", mooncake(20_000))
        (tmp_path / "a").write_bytes(gzip.compress(source.read_bytes())[:-8] + bytes(8))
        trace = ingest(tmp_path / "a", tmp_path / "t")
        assert trace.requests > 19_000
        assert "damaged" in trace.header.bad_lines[-1].reason


class TestFullDisk:
    """A memory map has no way to say that a disk is full but a signal that kills the process."""

    @pytest.mark.parametrize("megabytes", [1, 2, 3])
    def test_it_is_an_error_and_nothing_is_left(self, megabytes: int, tmp_path: Path) -> None:
        source = write_lines(tmp_path / "source", mooncake(20_000))
        with small_disk(tmp_path / "disk", megabytes=megabytes) as disk:
            with pytest.raises(OSError, match="No space left") as full:
                ingest(source, disk.path / "t")
            assert full.value.errno == errno.ENOSPC
            assert list(disk.path.iterdir()) == []

    def test_generating_says_so_too(self, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk", megabytes=1) as disk:
            with pytest.raises(OSError, match="No space left"):
                generate_into(disk.path / "t", 20_000)
            assert list(disk.path.iterdir()) == []


class TestWholeOrNothing:
    def test_progress_rises_to_one(self, source: Path, tmp_path: Path) -> None:
        told: list[float] = []
        ingest(source, tmp_path / "t", on_progress=told.append)
        assert told == sorted(told)
        assert told[-1] == 1.0

    def test_what_progress_raises_ends_it(self, source: Path, tmp_path: Path) -> None:
        def cancel(_share: float) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            ingest(source, tmp_path / "t", on_progress=cancel)
        assert [path.name for path in tmp_path.iterdir()] == ["source"]

    def test_a_target_that_exists_stays(self, source: Path, tmp_path: Path) -> None:
        ingest(source, tmp_path / "t", name="first")
        with pytest.raises(TraceReadError) as refused:
            ingest(source, tmp_path / "t", name="second")
        assert (refused.value.code, refused.value.field) == ("target_exists", "target")
        assert open_trace(tmp_path / "t").header.name == "first"

    def test_what_a_killed_process_left_goes_with_the_next(self, source: Path, tmp_path: Path) -> None:
        script = (
            "import os, signal, sys\n"
            "from kvcm_platform.optimizer.traces import ingest\n"
            "ingest(sys.argv[1], sys.argv[2], on_progress=lambda _: os.kill(os.getpid(), signal.SIGKILL))\n"
        )
        command = [sys.executable, "-c", script, str(source), str(tmp_path / "t")]
        died = subprocess.run(command, check=False, timeout=60)
        assert died.returncode == -signal.SIGKILL
        left = {path.name for path in tmp_path.iterdir()} - {"source"}
        assert len(left) == 1
        assert not (tmp_path / "t").exists()
        ingest(source, tmp_path / "other")
        assert left < {path.name for path in tmp_path.iterdir()}
        assert ingest(source, tmp_path / "t").requests == 300
        assert {path.name for path in tmp_path.iterdir()} == {"source", "other", "t"}

    @pytest.mark.parametrize("name", ["path.npy", "header.json", "offset.npy"])
    def test_a_damaged_trace_is_not_opened(self, name: str, source: Path, tmp_path: Path) -> None:
        ingest(source, tmp_path / "t")
        whole = (tmp_path / "t" / name).read_bytes()
        for content in (whole[:-9], b"", b"x" * len(whole)):
            (tmp_path / "t" / name).write_bytes(content)
            with pytest.raises(TraceReadError) as refused:
                open_trace(tmp_path / "t")
            assert refused.value.code == "not_a_trace"

    def test_a_directory_that_another_process_swept_before_it_had_its_lock(
        self, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Between making the directory and locking it, it looks like that of a dead process."""
        real, seen = directories.flock, []

        def sweep_first(lock: Any, operation: int) -> None:
            if not seen:
                seen.append(1)
                for left in tmp_path.glob("*.part"):
                    shutil.rmtree(left)
            real(lock, operation)

        monkeypatch.setattr(directories, "flock", sweep_first)
        assert ingest(source, tmp_path / "t").requests == 300
        assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "t"]

    def test_it_is_locked_until_it_has_its_name(
        self, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Else a process killed between the two would leave a directory that nobody may remove."""
        real = Path.rename
        locked: list[bool] = []

        def rename(path: Path, target: Path) -> Path:
            if path.is_dir():
                locked.append((path / "lock").exists())
            return real(path, target)

        monkeypatch.setattr(Path, "rename", rename)
        ingest(source, tmp_path / "t")
        assert locked == [True]
        assert not (tmp_path / "t" / "lock").exists()

    def test_an_empty_directory_of_a_killed_process_goes(self, source: Path, tmp_path: Path) -> None:
        (tmp_path / ".t.0123.part").mkdir()
        ingest(source, tmp_path / "t")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "t"]
