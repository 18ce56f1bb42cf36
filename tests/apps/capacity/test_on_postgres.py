"""The record of reclaim over PostgreSQL: what locks, transactions and JSON columns could make different."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.postgres import running_postgres

ROOT = Path(__file__).resolve().parents[3]
CHOSEN = (
    "first_report or twice or hold_up or holds_up or batch or at_once or fell_back or nobody or forgotten"
    " or narrowed or figures"
)


@pytest.mark.timeout(900)
def test_the_same_over_postgres() -> None:
    with running_postgres() as folder:
        url = f"postgresql://postgres@/postgres?host={folder / 'postgres'}"
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "tests/apps/capacity", "-k", CHOSEN],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": url},
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
    assert run.returncode == 0, run.stdout[-5000:]
    assert " passed" in run.stdout
