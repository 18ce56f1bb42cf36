"""What one call, one connection and one process may cost at the doors; the same for every transport."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.settings.env import Env

UNFINISHED_MESSAGES = 8
"""So many messages of the largest size may be on their way into a door at a time."""


class Unfinished:
    """Bytes that a door holds of requests which are not in work yet, over all its connections."""

    __slots__ = ("most", "size")

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = 0

    @property
    def is_full(self) -> bool:
        return self.size > self.most

    @property
    def refusal(self) -> str:
        return (
            f"more than {self.most} bytes of unfinished requests in this process"
            f" ({UNFINISHED_MESSAGES} times KVCM_MAX_MESSAGE_MB)"
        )


@dataclass(frozen=True, slots=True)
class DoorLimits:
    message_bytes: int = 64 << 20
    header_bytes: int = 16 << 10
    """Of one call: names and values of its headers, counted as HTTP/2 does."""
    streams: int = 1024
    """Calls of one HTTP/2 connection at a time."""
    calls: int = 4096
    """Calls in work in one process, over all connections."""

    def check_answer(self, pieces: Sequence[bytes]) -> None:
        """Raises TOO_LARGE before an answer is put together that no client would get."""
        size = sum(map(len, pieces))
        if size > self.message_bytes:
            raise DomainError(
                Code.TOO_LARGE,
                f"the answer of {size} bytes is larger than {self.message_bytes} (KVCM_MAX_MESSAGE_MB)",
            )

    @property
    def unfinished_bytes(self) -> int:
        return UNFINISHED_MESSAGES * self.message_bytes

    @classmethod
    def of(cls, env: Env) -> DoorLimits:
        return cls(
            message_bytes=env["KVCM_MAX_MESSAGE_MB"] << 20,
            header_bytes=env["KVCM_MAX_HEADER_KB"] << 10,
            streams=env["KVCM_MAX_STREAMS"],
            calls=env["KVCM_MAX_CALLS"],
        )
