"""Directories of ingested traces appear under their name only whole."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from secrets import token_hex

from .errors import TraceReadError

_LOCK = "lock"


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """A directory to fill, which gets the name `target` at the end; removed if that does not come.

    What a killed process left beside the target is removed first: its lock is free. Raises TraceReadError
    target_exists.
    """
    _refuse_existing(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target)
    directory = target.parent / f".{target.name}.{token_hex(6)}.part"
    directory.mkdir()
    try:
        with (directory / _LOCK).open("w") as lock:
            flock(lock, LOCK_EX | LOCK_NB)
            yield directory
            (directory / _LOCK).unlink()
            try:
                directory.rename(target)
            except OSError:
                _refuse_existing(target)
                raise
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise TraceReadError("target_exists", f"{target} exists already", field="target")


def _sweep(target: Path) -> None:
    for left in target.parent.glob(f".{_escaped(target.name)}.*.part"):
        with suppress(OSError), (left / _LOCK).open("r") as lock:
            flock(lock, LOCK_EX | LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)


def _escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
