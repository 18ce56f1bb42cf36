"""What tests of traces and runs share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.optimizer_jobs import JobHere


@pytest.fixture(autouse=True)
def optimizer_folder(tmp_path: Path, settings) -> Iterator[Path]:
    """Files of traces are this test's own."""
    settings.KVCM_OPTIMIZER_FOLDER = tmp_path / "optimizer"
    yield tmp_path / "optimizer"


@pytest.fixture
def jobs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs have no processes of their own."""
    monkeypatch.setattr("apps.optimizer_reports.services.carrying.JobProcess", JobHere)
