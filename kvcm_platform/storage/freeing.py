"""Frees slots of many files in one go: slots are punched, files whose slots are all free are unlinked.

Blocking calls; run them in a thread. Each file has its own answer; what goes wrong with the root is raised.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvcm_platform.core.deletion import FreedSlots, ObjectRefused

from . import files, marker
from .backend import FreedObject

_OF_THE_FILE = frozenset({errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL})
"""Errors that say something about one path and nothing about the storage."""


@dataclass(slots=True)
class FileWork:
    """What is to be freed of one file; `reason` says why it was not, an ObjectRefused where others may be."""

    path: str
    items: Sequence[FreedObject]
    reason: str = ""

    @property
    def is_shared(self) -> bool:
        return self.items[0].slots_in_file > 1

    @property
    def is_whole(self) -> bool:
        """Whether every slot of the file is among what is freed: it need not be punched before it goes."""
        return len({item.uri.slot for item in self.items}) >= self.items[0].slots_in_file

    @property
    def freed(self) -> FreedSlots:
        return FreedSlots(
            self.path,
            self.items[0].slots_in_file,
            tuple(item.uri.slot for item in self.items),
            all(item.is_second_pass for item in self.items),
        )


def free_slots(root: str, works: Sequence[FileWork]) -> None:
    """Unlinks files of one block, and punches the slots of shared ones. Raises OSError."""

    def free(work: FileWork) -> None:
        if not work.is_shared:
            files.unlink(work.path)
        elif not work.is_whole:
            files.punch_all(work.path, [(item.uri.offset, item.uri.size) for item in work.items])

    _each(root, works, free)


def unlink_files(root: str, works: Sequence[FileWork]) -> None:
    """Unlinks files of which every slot is free. Raises OSError."""
    _each(root, works, lambda work: files.unlink(work.path))


def _each(root: str, works: Sequence[FileWork], free: Callable[[FileWork], None]) -> None:
    marker.require_mark(root)
    check = files.Folders(root)
    for work in works:
        try:
            check.require(work.path)
            free(work)
        except files.UnsafePath as error:
            work.reason = ObjectRefused(error)
        except OSError as error:
            work.reason = ObjectRefused(error) if error.errno in _OF_THE_FILE else str(error)
