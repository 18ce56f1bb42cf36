"""Removes folders that nothing is left in, of instances that are gone or have not written for long."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.uris import MARKER, file_root

from . import marker

SECONDS = 120.0
"""What all folders of a storage may take; the next time goes on with what is left."""
_NO_SUBFOLDERS = 2
"""Links of a folder without folders in it, where the file system counts them (else it is 1)."""
_IN_USE = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.EBUSY, errno.ENOTDIR})


_under_way: dict[str, threading.Thread] = {}
"""By root: to one that hangs no other is added."""
_lock = threading.Lock()


def tidy(entry: StorageEntry, before: float, *, seconds: float = SECONDS) -> int:
    """Removes empty folders that were not changed since `before` (unix seconds); returns their number.

    Only the folders are gone through, not the files in them. Raises OSError, NotTheStorage, and
    TimeoutError after `seconds`: a mount that hangs keeps a thread of its own, and no worker.
    """
    root = file_root(entry).rstrip("/")
    outcome: list[int | OSError] = []

    def work() -> None:
        try:
            marker.require_mark(root)
            outcome.append(_tidy(root, before, is_root=True)[0])
        except OSError as error:
            outcome.append(error)

    thread = threading.Thread(target=work, name=f"tidy {root}", daemon=True)
    with _lock:
        earlier = _under_way.get(root)
        if earlier is not None and earlier.is_alive():
            raise TimeoutError(errno.ETIMEDOUT, "its folders are still being gone through", root)
        _under_way[root] = thread
        thread.start()
    thread.join(seconds)
    if not outcome:
        raise TimeoutError(errno.ETIMEDOUT, f"its folders were not gone through within {seconds:g} s", root)
    if isinstance(outcome[0], OSError):
        raise outcome[0]
    return outcome[0]


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
