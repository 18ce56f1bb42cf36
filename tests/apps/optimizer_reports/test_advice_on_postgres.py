"""Schedules, reports, recommendations and savings over PostgreSQL: its locks are others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.postgres import running_postgres

HERE = Path(__file__).resolve().parent
FILES = [
    f"test_{name}.py"
    for name in ("schedules", "reports", "recommendations", "savings", "cost_models", "lists", "at_once")
]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_same_over_postgres() -> None:
    with running_postgres() as folder:
        url = f"postgresql://postgres@/postgres?host={folder / 'postgres'}"
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *(str(HERE / name) for name in FILES)],
            cwd=HERE.parents[2],
            env={**os.environ, "DATABASE_URL": url},
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
    assert run.returncode == 0, run.stdout[-5000:]
