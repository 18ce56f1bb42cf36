"""What the platform imports is locked: a machine of somebody's own has more than a fresh one gets."""

from __future__ import annotations

import ast
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = {"kvcm_platform", "apps"}


def imported() -> dict[str, Path]:
    """Top-level modules of others -> a file that imports them."""
    found: dict[str, Path] = {}
    for package in OURS:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                names: list[str] = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                    names = [node.module]
                for name in names:
                    found.setdefault(name.partition(".")[0], path)
    return {name: path for name, path in found.items() if name not in OURS | sys.stdlib_module_names}


def locked() -> set[str]:
    """Names of the distributions of requirements.lock."""
    text = (ROOT / "requirements.lock").read_text()
    return set(re.findall(r"^([a-z0-9][a-z0-9._-]*)==", text, re.MULTILINE))


def test_every_library_that_is_imported_is_locked() -> None:
    makers = packages_distributions()
    known = locked()
    assert known
    missing = {
        name: str(path.relative_to(ROOT))
        for name, path in imported().items()
        if not {re.sub(r"[-_.]+", "-", maker).lower() for maker in makers.get(name, ())} & known
    }
    assert missing == {}
