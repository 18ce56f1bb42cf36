"""The import rules hold (`make lint` runs them), and each of them can fail."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

OFFENCES = {
    # Contracts 1, 2 and 3a.
    "kvcm_platform/core/offence.py": "import django\nimport kvcm_platform.index.keyspace\n",
    # 3b and 7.
    "kvcm_platform/index/offence.py": "import kvcm_platform.client.errors\nimport numba\n",
    # 3c.
    "kvcm_platform/client/offence.py": "import kvcm_platform.index.keyspace\n",
    # 3d.
    "kvcm_platform/mempool_agent/offence.py": "import kvcm_platform.client.errors\n",
    # 4.
    "kvcm_platform/storage/offence.py": "import kvcm_platform.pb.meta_service_pb2\n",
    # 5a and 6.
    "apps/storages/selectors.py": "import apps.storages.services\nimport rest_framework\n",
    # 5b.
    "apps/common/offence.py": "import apps.instances.selectors\n",
    # 5c to 5l.
    "apps/health/offence.py": "".join(
        f"import apps.{app}.models\n"
        for app in (
            *("accounts", "audit", "storages", "instances", "common", "alerts", "copies", "capacity"),
            *("usage", "optimizer_reports"),
        )
    ),
}


def lint_imports(folder: Path) -> str:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    return run.stdout + run.stderr


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the import rules look at."""
    for name in ("kvcm_platform", "apps"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_every_rule_holds(tree: Path) -> None:
    said = lint_imports(tree)
    assert re.search(r"Contracts: \d+ kept, 0 broken", said), said


def test_every_rule_can_fail(tree: Path) -> None:
    for name, text in OFFENCES.items():
        with (tree / name).open("a") as file:
            file.write(f"\n{text}")
    said = lint_imports(tree)
    assert re.search(r"Contracts: 0 kept, \d+ broken", said), said
