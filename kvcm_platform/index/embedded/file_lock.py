"""A file that one process at a time holds; the kernel lets go of it with the process."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from kvcm_platform.core.errors import Code, DomainError


class FileLock:
    def __init__(self, path: Path) -> None:
        """Raises DomainError(IN_USE) while somebody else holds it, OSError."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._file)
            raise DomainError(
                Code.IN_USE, f"{path.parent} is open already: a local index belongs to one process"
            ) from error

    def release(self) -> None:
        """The file stays: one that another waits for must not be replaced."""
        os.close(self._file)
