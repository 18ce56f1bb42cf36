"""Removes folders that nothing is left in, of instances that are gone or have not written for long."""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.uris import MARKER, file_root

from . import marker

_NO_SUBFOLDERS = 2
"""Links of a folder without folders in it, where the file system counts them (else it is 1)."""
_IN_USE = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.EBUSY, errno.ENOTDIR})


def tidy(entry: StorageEntry, before: float) -> int:
    """Removes empty folders that were not changed since `before` (unix seconds); returns their number.

    Only the folders are gone through, not the files in them. Raises OSError, NotTheStorage.
    """
    root = file_root(entry)
    marker.require_mark(root)
    return _tidy(root.rstrip("/"), before, is_root=True)[0]


def _tidy(folder: str, before: float, *, is_root: bool = False) -> tuple[int, bool]:
    """Number of folders removed below, and whether `folder` is among them."""
    try:
        # Before its subfolders go: their removal changes it, and that makes nobody wait another hour.
        status = os.stat(folder, follow_symlinks=False)
        subfolders, is_empty = _contents(folder, status)
    except (FileNotFoundError, NotADirectoryError):
        return 0, False
    if not is_root and os.path.lexists(os.path.join(folder, MARKER)):
        return 0, False
    removed = 0
    for name in subfolders:
        count, is_gone = _tidy(os.path.join(folder, name), before)
        removed += count
        is_empty = is_empty and is_gone
    if is_root or not is_empty or max(status.st_mtime, status.st_ctime) >= before:
        return removed, False
    try:
        os.rmdir(folder)
    except OSError as error:
        if error.errno not in _IN_USE:
            raise
        return removed, False
    return removed + 1, True


def _contents(folder: str, status: os.stat_result) -> tuple[list[str], bool]:
    """Names of its folders, and whether there is nothing else. A full folder is not read to its end."""
    subfolders, is_empty = [], True
    with contextlib.closing(os.scandir(folder)) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                subfolders.append(entry.name)
            else:
                is_empty = False
                if status.st_nlink == _NO_SUBFOLDERS and stat.S_ISDIR(status.st_mode):
                    break
    return subfolders, is_empty
