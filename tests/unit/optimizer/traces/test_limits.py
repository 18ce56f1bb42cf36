"""What ingest bounds, what it tells on the way, and what it leaves behind: a whole trace or nothing."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard

from kvcm_platform.optimizer.traces import TraceReadError, ingest, open_trace

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
