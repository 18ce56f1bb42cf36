"""What the command line writes over, and how it says what was counted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvcm_platform.optimizer.cli import main
from tests.support.optimizer_jobs import mooncake_lines


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "small.jsonl"
    path.write_bytes(mooncake_lines([[0, 1], [0, 2], [0, 1]]))
    return str(path)


def test_a_pipe_or_a_link_that_is_written_to_stays_what_it_is(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe, link, target = tmp_path / "pipe", tmp_path / "link", tmp_path / "target"
    os.mkfifo(pipe)
    link.symlink_to(target)
    curve = ["curve", "--trace", source, "--capacities", "2", "--csv"]
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert main([*curve, str(pipe)]) == 0
        assert os.read(reader, 1 << 16).startswith(b"label,policy")
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert main([*curve, str(link)]) == 0
    assert link.is_symlink() and target.read_text().startswith("label,policy")
    capsys.readouterr()
    assert main(["anonymize", "--trace", source, "--out", str(pipe)]) == 2
    assert "no regular file" in capsys.readouterr().err and pipe.is_fifo()


def test_curves_that_were_counted_alike_share_their_definition(
    source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "--trace", source, "--policy", "lru,fifo", "--capacities", "2"]) == 0
    counted = [line for line in capsys.readouterr().out.splitlines() if "deepest block first" in line]
    assert len(counted) == 1 and counted[0].startswith("lru, fifo: a request uses")


def test_simulate_prints_shares_in_percent_as_the_others_do(
    source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--trace", source, "--policy", "fifo", "--capacities", "9"]) == 0
    # Block 0 twice and block 1 once, of 6; nothing is evicted, so there are no orphans.
    capacity, hits, rate, *_, orphans = capsys.readouterr().out.rstrip().splitlines()[-1].split()
    assert (capacity, hits, rate, orphans) == ("9", "3", "50.00%", "0.00%")
