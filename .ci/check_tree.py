"""Checks of the tree itself: file sizes, names that say nothing, hosts that must not be committed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

MOST_LINES = 500
SOURCES = {".py", ".ts", ".tsx", ".lua", ".sh", ".css"}
GENERATED = ("kvcm_platform/pb/", "frontend/src/api/schema", "frontend/src/routeTree.gen")
VAGUE = re.compile(r"(^|_)(utils?|helpers?|misc)$", re.IGNORECASE)
# Written in pieces, so that this file does not name them.
REGISTRY_HOSTS = re.compile(
    r"(files\.python"
    r"hosted\.org|pypi"
    r"\.org|registry\.npm"
    r"js\.org|deb\.debian"
    r"\.org|registry\.yarn"
    r"pkg\.com)"
)
PACKAGE_ROOTS = ("kvcm_platform", "apps")


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=True,
    )
    names = listed.stdout.decode().split("\0")
    return [path for name in names if name and (path := Path(name)).is_file()]


def problems(paths: list[Path]) -> list[str]:
    found = []
    for path in paths:
        name = path.as_posix()
        if path.suffix in SOURCES and VAGUE.search(path.stem):
            found.append(f"{name}: name the file after what it does")
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        lines = text.count("\n")
        if path.suffix in SOURCES and lines > MOST_LINES and not name.startswith(GENERATED):
            found.append(f"{name}: {lines} lines, at most {MOST_LINES}")
        if match := REGISTRY_HOSTS.search(text):
            found.append(f"{name}: names the registry host {match[0]}")
    # Without __init__.py a folder is invisible to the import rules, and they pass without looking.
    for root in PACKAGE_ROOTS:
        folders = {path.parent for path in paths if path.suffix == ".py" and path.parts[0] == root}
        found += [
            f"{folder}: no __init__.py" for folder in sorted(folders) if not (folder / "__init__.py").exists()
        ]
    return found


if __name__ == "__main__":
    complaints = problems(tracked())
    for complaint in complaints:
        print(complaint)
    sys.exit(bool(complaints))
