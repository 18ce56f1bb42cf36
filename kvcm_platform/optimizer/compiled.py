"""How the replays are compiled."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])

_log = logging.getLogger(__name__)


def compiled(function: Function) -> Function:
    """For functions that allocate nothing and only work on the arrays given to them.

    Without `_nrt=False` every array handed from one function to the next is counted with an atomic addition,
    and a replay, which is a few loads and stores a block, is ten times slower (measured: 7 against 71 M
    blocks/s).
    """
    # `_nrt` is missing in numba's own types.
    return _compile(function, {"_nrt": False})


def compiled_allocating(function: Callable[..., Any]) -> Any:
    """For functions that make arrays of their own."""
    return _compile(function, {})


def _compile(function: Function, options: dict[str, Any]) -> Function:
    """Compiles at the first call, without Python's lock; what is compiled is kept on disk where it may be.

    It is compiled anew when any file of the function's folder has changed: a compiled function contains
    those that it calls, and numba alone looks at the function's own file only.
    """
    try:
        made: Any = njit(cache=True, nogil=True, **options)(function)
    except RuntimeError as error:
        # Neither the sources' folder nor the home may be written to, and NUMBA_CACHE_DIR names no other.
        _log.warning("compiled at each start, nowhere to keep it: %s", error)
        made = njit(nogil=True, **options)(function)
    on_disk = getattr(getattr(made, "_cache", None), "_cache_file", None)
    if on_disk is not None:
        on_disk._source_stamp = _stamp(Path(function.__code__.co_filename).parent)
    answer: Function = made
    return answer


@cache
def _stamp(folder: Path) -> str:
    """Changes with the files of a folder and of what all of them build on."""
    digest = hashlib.sha256()
    for source in (*sorted(folder.glob("*.py")), *sorted(Path(__file__).parent.glob("*.py"))):
        facts = source.stat()
        digest.update(f"{source.name} {facts.st_mtime_ns} {facts.st_size}\n".encode())
    return digest.hexdigest()
