"""Walks a storage's folder: every file with its space and age, and whether it is named like ours.

Ours is `<instance>/<spec>/<hex>[_<hash>].<location id>` (core.uris). Links are never followed, and a
folder with a marker of its own is another storage's. Blocking calls; run them in a thread.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from kvcm_platform.core.uris import MARKER

OURS = re.compile(r"[0-9a-f]{1,32}(_[0-9a-f]{1,16})?\.[a-z0-9]{8}")
_OWN_PREFIX = ".kvcm-"
"""Markers and what probes leave behind when they are killed: neither stored nor foreign."""
BLOCK_BYTES = 512
"""What st_blocks counts, whatever the file system's own blocks are."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    path: str
    space_bytes: int
    written_at: float
    is_ours: bool


def stored_files(root: str) -> Iterator[FoundFile]:
    """All files below the root but its own marker, folder by folder. Raises OSError.

    What disappears meanwhile is left out.
    """
    waiting = [root.rstrip("/")]
    depth_of_root = waiting[0].count("/")
    while waiting:
        folder = waiting.pop()
        depth = folder.count("/") - depth_of_root
        try:
            with os.scandir(folder) as entries:
                if depth and os.path.lexists(os.path.join(folder, MARKER)):
                    continue
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif depth or not entry.name.startswith(_OWN_PREFIX):
                        found = _found(entry, depth)
                        if found is not None:
                            yield found
        except (FileNotFoundError, NotADirectoryError):
            if not depth:
                raise


def _found(entry: os.DirEntry[str], depth: int) -> FoundFile | None:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    is_ours = stat.S_ISREG(status.st_mode) and depth >= 2 and OURS.fullmatch(entry.name) is not None
    # The time of the last change cannot be set back by whoever wrote the file.
    at = max(status.st_mtime, status.st_ctime)
    return FoundFile(entry.path, status.st_blocks * BLOCK_BYTES, at, is_ours)
