"""What may be wrong with a trace."""

from __future__ import annotations

from pathlib import Path

from kvcm_platform.core.traces import TraceError


class TraceReadError(TraceError):
    """A trace cannot be read, opened or written.

    `code` is stable: unknown_format, too_many_bad_lines, empty_trace, too_many_requests, too_many_blocks,
    too_many_names, too_large, target_exists, not_a_trace, unreadable,
    bad_option. `field` names the argument at fault.
    """

    def __init__(self, code: str, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.field = field


def writable_as_a_whole(path: Path, field: str) -> Path:
    """Where a finished file may take the place of what is there: what a link points at.

    Raises bad_option for devices, pipes and directories, which a file must not replace.
    """
    if path.exists() and not path.is_file():
        raise TraceReadError("bad_option", f"{field}: {path} is no regular file", field=field)
    return path.resolve()
