"""Rules about the sources that no tool knows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from kvcm_platform.supervisor.configuration_table import configuration_table

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [path for root in ("kvcm_platform", "apps") for path in (ROOT / root).rglob("*.py")]
UNBOUNDED_READS = re.compile(r"""\.(keys|smembers)\([bf]?["']|\(["'](KEYS|SMEMBERS)["']""")


def test_the_configuration_document_is_current() -> None:
    assert (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8") == configuration_table()


def test_no_unbounded_reads_of_redis() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in SOURCES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if UNBOUNDED_READS.search(line)
    ]
    assert found == []


def test_sizes_names_and_hosts() -> None:
    run = subprocess.run(
        [sys.executable, ".ci/check_tree.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout


def test_the_top_level_is_small() -> None:
    """What is only tooling lies in `.ci`; every other folder is one that the map of AGENTS.md names."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    folders = {name.split("/")[0] for name in listed.stdout.splitlines() if "/" in name}
    assert folders == {".ci", "apps", "docker", "docs", "frontend", "kvcm_platform", "proto", "tests"}
