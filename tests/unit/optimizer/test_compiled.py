"""A compiled function does not outlive a change of what it calls."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

CALLER = """
from kvcm_platform.optimizer.compiled import compiled
from package.folder import callee
_called = callee.called

@compiled
def call(number: int) -> int:
    return _called(number)
"""
CALLEE = """
from kvcm_platform.optimizer.compiled import compiled

@compiled
def called(number: int) -> int:
    return number + {added}
"""


def call(folder: Path) -> tuple[str, str]:
    """What the function answers, and how many of its forms came from the disk."""
    program = "from package.folder.caller import call; print(call(1), sum(call.stats.cache_hits.values()))"
    paths = os.pathsep.join((str(folder), str(ROOT)))
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(folder / "kept")},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    answer, hits = run.stdout.split()
    return answer, hits


def test_a_change_of_a_called_file_is_seen(tmp_path: Path) -> None:
    folder = tmp_path / "package" / "folder"
    folder.mkdir(parents=True)
    (tmp_path / "package" / "trace.py").touch()
    (folder / "caller.py").write_text(CALLER)
    (folder / "callee.py").write_text(CALLEE.format(added=1))
    assert call(tmp_path) == ("2", "0")
    assert call(tmp_path) == ("2", "1")
    (folder / "callee.py").write_text(CALLEE.format(added=20))
    assert call(tmp_path) == ("21", "0")


def test_work_goes_on_where_nothing_may_be_kept() -> None:
    """As in a container whose folders are all read-only: compiled at each start, and told."""
    program = "from kvcm_platform.optimizer.bits import highest_bit; print(highest_bit(12))"
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_LOCATOR_CLASSES": "IPythonCacheLocator"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert run.stdout.split() == ["3"]
    assert "nowhere to keep it" in run.stderr
