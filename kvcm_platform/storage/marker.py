"""The file that says whose a root folder is, and that it is the storage's at all (its mount is there).

It carries one line of JSON: the owner (installation and storage) and the life of what lies beside it.
Those of earlier versions are empty: nobody's yet. Blocking calls; run them in a thread.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
from dataclasses import asdict, dataclass

from kvcm_platform.core.uris import MARKER

_LONGEST = 4096


class NotTheStorage(OSError):
    """The root lacks its marker: deleting nothing there would look like success."""


@dataclass(frozen=True, slots=True)
class Mark:
    """`owner` is "" while nobody claimed the root; `life` is new with every marker that is made."""

    owner: str = ""
    life: str = ""


def mark(root: str, owner: str = "") -> Mark:
    """Puts the marker into a root that an operator just declared to be a storage; one that is there stays.

    Returns what it says then. Raises OSError.
    """
    path = os.path.join(root, MARKER)
    if not os.path.lexists(path):
        fresh = f"{path}-{secrets.token_hex(8)}"
        try:
            _write(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), _new(owner))
            with contextlib.suppress(FileExistsError):
                _place(fresh, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh)
    return read_mark(root)


def claim(root: str, owner: str) -> Mark:
    """Writes the owner into a marker that names none; one that names somebody stays as it is.

    Returns what it says then. Raises OSError, NotTheStorage where there is none.
    """
    if not read_mark(root).owner:
        with contextlib.suppress(FileNotFoundError):
            file = os.open(os.path.join(root, MARKER), os.O_RDWR | os.O_NOFOLLOW)
            with contextlib.closing(os.fdopen(file, "r+b", buffering=0)) as opened:
                _lock(file)
                was = _parsed(opened.read(_LONGEST))
                if not was.owner:
                    # In place: a reader sees the empty marker or the whole line.
                    text = _text(Mark(owner, was.life or secrets.token_hex(8)))
                    os.pwrite(file, text, 0)
                    os.ftruncate(file, len(text))
                    os.fsync(file)
    return read_mark(root)


def read_mark(root: str) -> Mark:
    """What the marker of a root says. Raises NotTheStorage where there is none, OSError."""
    path = os.path.join(root, MARKER)
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError as error:
        raise NotTheStorage(errno.ENOENT, f"{MARKER} is missing: is the storage mounted?", root) from error
    with os.fdopen(file, "rb") as opened:
        return _parsed(opened.read(_LONGEST))


def require_mark(root: str) -> None:
    """Raises NotTheStorage."""
    if not os.path.exists(os.path.join(root, MARKER)):
        raise NotTheStorage(errno.ENOENT, f"{MARKER} is missing: is the storage mounted?", root)


def _parsed(raw: bytes) -> Mark:
    """Whatever cannot be read as a marker of ours is somebody else's."""
    if not raw.strip():
        return Mark()
    try:
        data = json.loads(raw)
        return Mark(str(data["owner"]), str(data["life"]))
    except (ValueError, KeyError, TypeError):
        return Mark(owner=f"unreadable marker {raw[:64]!r}")


def _new(owner: str) -> bytes:
    return _text(Mark(owner, secrets.token_hex(8)))


def _text(wanted: Mark) -> bytes:
    return json.dumps(asdict(wanted)).encode() + b"\n"


def _write(file: int, text: bytes) -> None:
    with os.fdopen(file, "wb") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())


def _place(fresh: str, path: str) -> None:
    """Gives the finished file its name. Raises FileExistsError where another was faster."""
    try:
        os.link(fresh, path)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links: two that mark one root at once both take the last one's word.
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from None
        os.rename(fresh, path)


def _lock(file: int) -> None:
    """Where the file system has locks; elsewhere the later of two claims at once counts."""
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX)
