"""What may be wrong with a trace."""

from __future__ import annotations

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
