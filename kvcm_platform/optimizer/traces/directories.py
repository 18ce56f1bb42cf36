"""Directories of ingested traces appear under their name only whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from secrets import token_hex
from typing import TextIO

from .errors import TraceReadError

_LOCK = "lock"
_ATTEMPTS = 100


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """A directory to fill, which gets the name `target` at the end; removed if that does not come.

    What a killed process left beside the target is removed first: its lock is free. Raises TraceReadError
    target_exists.
    """
    _refuse_existing(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target)
    directory, lock = _locked_directory(target)
    with lock:
        try:
            yield directory
            try:
                directory.rename(target)
            except OSError:
                _refuse_existing(target)
                raise
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        # After it has its name: without a lock, what a killed process leaves would look like somebody's.
        (target / _LOCK).unlink(missing_ok=True)


def _locked_directory(target: Path) -> tuple[Path, TextIO]:
    """A new directory beside the target with its lock, held."""
    for _ in range(_ATTEMPTS):
        directory = target.parent / f".{target.name}.{token_hex(6)}.part"
        directory.mkdir()
        # Until the lock is held another process may take the directory for a dead one's and remove it.
        with suppress(FileNotFoundError, BlockingIOError), ExitStack() as opened:
            lock = opened.enter_context((directory / _LOCK).open("w"))
            flock(lock, LOCK_EX | LOCK_NB)
            if os.path.samestat((directory / _LOCK).stat(), os.fstat(lock.fileno())):
                opened.pop_all()
                return directory, lock
    raise TraceReadError("target_exists", f"{target} is being written by others", field="target")


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise TraceReadError("target_exists", f"{target} exists already", field="target")


def _sweep(target: Path) -> None:
    for left in target.parent.glob(f".{_escaped(target.name)}.*.part"):
        with suppress(OSError), (left / _LOCK).open("r") as lock:
            flock(lock, LOCK_EX | LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
        with suppress(OSError):
            # Killed before it had a lock.
            left.rmdir()


def _escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
