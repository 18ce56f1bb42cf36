"""Where files of traces lie: below the data dir, one folder a trace.

`source` is what came (or was captured), `columns` the columnar trace, `trace.parquet` the same for others.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from kvcm_platform.core.errors import Code, DomainError

_NAME = re.compile(r"[0-9a-f]{16}")


def optimizer_folder() -> Path:
    return Path(settings.KVCM_OPTIMIZER_FOLDER)


def traces_folder() -> Path:
    return optimizer_folder() / "traces"


def folder_name() -> str:
    """A new one, never given before."""
    return secrets.token_hex(8)


def trace_folder(name: str) -> Path:
    """Raises ValueError for what is no name of one: it may come from a row, never from a caller."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no folder of a trace")
    return traces_folder() / name


def source_file(name: str) -> Path:
    return trace_folder(name) / "source"


def columns_folder(name: str) -> Path:
    return trace_folder(name) / "columns"


def parquet_file(name: str) -> Path:
    return trace_folder(name) / "trace.parquet"


@contextmanager
def kept_or_refused() -> Iterator[None]:
    """Raises IO_ERROR where a file cannot be written: the disk is full, or away."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise DomainError(Code.IO_ERROR, f"files of traces cannot be written: {reason}") from error


def bytes_below(folder: Path) -> int:
    """Of all files in it; those that vanish meanwhile count nothing."""
    total = 0
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                total += path.stat().st_size
        except OSError:
            continue
    return total
