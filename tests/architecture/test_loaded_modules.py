"""What a process really loads, whatever the import rules can see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DJANGO_SIDE = {"django", "channels", "celery", "kombu", "rest_framework", "apps"}


def top_level_modules_of(statement: str) -> set[str]:
    program = f"{statement}\nimport sys\nprint(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    return {name.split(".")[0] for name in run.stdout.split()}


@pytest.mark.parametrize(
    "statement",
    [
        "import kvcm_platform",
        "import kvcm_platform.metadata_service.__main__, kvcm_platform.metadata_service.process",
        "import kvcm_platform.client.__main__, kvcm_platform.client.cli",
        "import kvcm_platform.mempool_agent.__main__, kvcm_platform.mempool_agent.process",
        "import kvcm_platform.supervisor.__main__",
    ],
)
def test_loads_no_django(statement: str) -> None:
    assert not top_level_modules_of(statement) & DJANGO_SIDE


def test_the_metadata_service_loads_no_numba() -> None:
    assert "numba" not in top_level_modules_of("import kvcm_platform.metadata_service.process")


def test_a_job_of_an_analysis_loads_nothing_that_only_reading_or_drawing_needs() -> None:
    loaded = top_level_modules_of("import kvcm_platform.optimizer.analysis.work")
    assert not loaded & {"polars", "matplotlib", "jinja2", "tqdm"}


def test_the_package_itself_boots_nothing() -> None:
    assert (ROOT / "kvcm_platform" / "__init__.py").read_text() == ""
