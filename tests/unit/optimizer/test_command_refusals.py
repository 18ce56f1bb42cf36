"""What commands say and leave where they can do nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvcm_platform.optimizer.cli import main


def trace_file(path: Path, ids: list[int]) -> Path:
    record = {"timestamp": 0, "input_length": 512 * len(ids), "output_length": 1, "hash_ids": ids}
    path.write_text(json.dumps(record) + "\n")
    return path


def run(command: str, trace: Path, *more: str) -> int:
    cache = str(trace.parent / "cache")
    return main([command, "--trace", str(trace), "--cache", cache, "--quiet", *more])


def test_a_trace_without_blocks_is_said_to_have_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("simulate", trace_file(tmp_path / "a", [])) == 2
    assert capsys.readouterr().err == "optimizer: trace: it has no block\n"


def test_a_file_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "out" / "a.csv"
    taken.mkdir(parents=True)
    assert run("curve", trace_file(tmp_path / "a", [1, 2]), "--csv", str(taken)) == 2
    assert "Is a directory" in capsys.readouterr().err
    assert list(taken.parent.iterdir()) == [taken]


def test_names_in_traces_do_not_command_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"timestamp_us": 0, "instance_id": "a\x1b]0;owned\x07", "keys": [1], "total_keys": [1]}
    trace = tmp_path / "a\x1b[31m"
    trace.write_text(json.dumps(record) + "\n{}\n")
    assert main(["ingest", "--trace", str(trace), "--out", str(tmp_path / "t")]) == 0
    told = capsys.readouterr()
    assert "a\N{REPLACEMENT CHARACTER}]0;owned" in told.out
    assert not any(sign in told.out + told.err for sign in "\x1b\x07")
    assert main(["ingest", "--trace", str(tmp_path / "b\x1b[31m"), "--out", str(tmp_path / "u")]) == 2
    assert "\x1b" not in capsys.readouterr().err
