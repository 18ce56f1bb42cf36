"""Log files stay bounded; the terminal shows what matters, whole."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from kvcm_platform.supervisor.output import ChildOutput, LogFile, Terminal


def test_a_log_file_is_turned_over_before_it_exceeds_its_bound(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "a.log", max_bytes=100, keep=2)
    for number in range(40):
        log.write(f"line {number:03}")
    log.close()
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["a.log", "a.log.1", "a.log.2"]
    assert all((tmp_path / name).stat().st_size <= 100 for name in files)
    assert (tmp_path / "a.log").read_text().endswith("line 039\n")
    newest_older = (tmp_path / "a.log.1").read_text().splitlines()[-1]
    assert (tmp_path / "a.log").read_text().startswith(f"line {int(newest_older[5:]) + 1:03}")


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-30 [warning  ] slow",
        '{"event": "x", "level": "error"}',
        "WARNING:  Invalid HTTP request received.",
        "[2026-11-30 12:00:00,000: ERROR/MainProcess] Task failed",
        "1234:M 30 Nov 2026 12:00:00.123 # Error writing to the AOF file",
    ],
)
def test_warnings_of_every_kind_reach_the_terminal(tmp_path: Path, line: str) -> None:
    screen = io.StringIO()
    output = ChildOutput("worker", LogFile(tmp_path / "a.log"), Terminal(screen))
    output.line(line)
    output.close()
    assert screen.getvalue() == f"worker | {line}\n"


@pytest.mark.parametrize(
    "line",
    [
        '{"event": "an error is only mentioned", "level": "info"}',
        "1234:M 30 Nov 2026 12:00:00.123 * Ready to accept connections",
        "1234:M 30 Nov 2026 12:00:00.123 # WARNING Memory overcommit must be enabled!",
        "INFO:     Application startup complete.",
    ],
)
def test_ordinary_lines_stay_in_the_file(tmp_path: Path, line: str) -> None:
    screen = io.StringIO()
    output = ChildOutput("worker", LogFile(tmp_path / "a.log"), Terminal(screen))
    output.line(line)
    output.close()
    assert screen.getvalue() == ""
    assert (tmp_path / "a.log").read_text() == f"{line}\n"


def test_a_traceback_is_shown_whole(tmp_path: Path) -> None:
    screen = io.StringIO()
    output = ChildOutput("web", LogFile(tmp_path / "a.log"), Terminal(screen))
    for line in ("Traceback (most recent call last):", '  File "x.py", line 1', "    boom()", "calm again"):
        output.line(line)
    output.close()
    assert "boom()" in screen.getvalue()
    assert "calm again" not in screen.getvalue()


def test_a_closed_terminal_ends_nothing(tmp_path: Path) -> None:
    screen = io.StringIO()
    terminal = Terminal(screen)
    screen.close()
    terminal.say("nobody reads this")
