"""Slot files on a mounted directory: freeing space without touching neighbours, and path safety.

Blocking calls; run them in a thread.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterable

FALLOC_FL_KEEP_SIZE = 0x01
FALLOC_FL_PUNCH_HOLE = 0x02
TOUCHES = 3
PAGE = 4096
"""File systems give space back in blocks of this size, or of a multiple."""
_NO_PUNCH = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class UnsafePath(ValueError):
    """A path that does not stay under its storage's root."""


class Folders:
    """Which paths lie under a root; remembers the folders that it looked at, so keep none for long."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._real_root = os.path.realpath(root)
        self._safe: set[str] = set()

    def require(self, path: str) -> None:
        """Raises UnsafePath for `..`, for another root, and for folders that lead out through a link."""
        if not path.startswith(self._root) or any(part in {"..", "."} for part in path.split("/")):
            raise UnsafePath(f"{path} is not under {self._root}")
        folder = os.path.dirname(path)
        if folder in self._safe:
            return
        real = os.path.realpath(folder)
        if real != self._real_root and not real.startswith(self._real_root.rstrip("/") + "/"):
            raise UnsafePath(f"{path} leads out of {self._root}")
        self._safe.add(folder)


def checked(root: str, path: str) -> str:
    """`path`, when it lies under `root` by name and, where its folder exists, in truth.

    Raises UnsafePath for `..`, for another root, and for folders that lead out through a link.
    """
    Folders(root).require(path)
    return path


def punch(path: str, offset: int, size: int) -> None:
    punch_all(path, [(offset, size)])


def punch_all(path: str, slots: Iterable[tuple[int, int]]) -> None:
    """Gives the space of slots (offset, bytes) back; the file keeps its length. A missing file is fine.

    Where the file system cannot punch holes the space comes back with the whole file. Raises OSError.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
        for offset, size in slots:
            if _libc.fallocate(descriptor, mode, offset, size) != 0:
                number = ctypes.get_errno()
                if number not in _NO_PUNCH:
                    raise OSError(number, os.strerror(number), path)
    finally:
        os.close(descriptor)


def _own(offset: int, size: int) -> tuple[int, int]:
    """The part of a slot that shares no block of the file system with its neighbours, which keep theirs.

    Blocks larger than a page are seen in the middle of slots that are larger still. A slot without a
    page of its own is taken as it is.
    """
    margin = size // 4 if size >= 4 * PAGE else 0
    first = -(-(offset + margin) // PAGE) * PAGE
    end = (offset + size - margin) // PAGE * PAGE
    return (first, end) if first < end else (offset, offset + max(size, 1))


def has_data(path: str, offset: int, size: int) -> bool:
    """Whether a slot has any data of its own: one that was punched, or never written, has none.

    A file system that keeps no count of its holes says that all is data. Raises OSError.
    """
    offset, end = _own(offset, size)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA) < end
    except OSError as error:
        if error.errno == errno.ENXIO:
            return False
        if error.errno in _NO_PUNCH:
            return os.fstat(descriptor).st_size > offset
        raise
    finally:
        os.close(descriptor)


def touch(root: str, path: str) -> None:
    """Makes an empty file and its folders; one that is there stays as it is. Raises OSError, UnsafePath."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    for _ in range(TOUCHES):
        checked(root, path)
        try:
            os.close(os.open(path, flags, 0o644))
        except FileNotFoundError:
            # Its folder may also have gone again meanwhile, as an empty one (storage.tidy).
            os.makedirs(os.path.dirname(path), exist_ok=True)
        else:
            return
    raise FileNotFoundError(errno.ENOENT, "its folder does not stay", path)


def unlink(path: str) -> None:
    """Removes a file; a missing one is fine."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def space(root: str) -> tuple[int, int]:
    """Used bytes and size of the file system that holds the root. What only root may use counts as used."""
    status = os.statvfs(root)
    return (status.f_blocks - status.f_bavail) * status.f_frsize, status.f_blocks * status.f_frsize
