"""The evaluation and the deliveries over PostgreSQL: the same tests, and workers that run side by side."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.postgres import running_postgres

CHOSEN = "lease or meanwhile or death or flaps or acknowledge or two_senders or died or forgotten or filters"
"""Those that a database could make different: locks, transactions, conditional constraints."""
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.timeout(900)
def test_the_same_over_postgres() -> None:
    with running_postgres() as folder:
        url = f"postgresql://postgres@/postgres?host={folder / 'postgres'}"
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "tests/apps/alerts", "tests/apps/audit/test_events.py"]
            + ["-k", CHOSEN],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": url},
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
    assert run.returncode == 0, run.stdout[-5000:]
