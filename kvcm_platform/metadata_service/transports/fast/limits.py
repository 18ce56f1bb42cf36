"""What one peer may cost: sizes, counts, times, and a budget for frames that carry no call."""

from __future__ import annotations

from dataclasses import dataclass

from ...limits import UNFINISHED_MESSAGES, DoorLimits
from .frames import ConnectionFault, ErrorCode


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one connection, unless said otherwise. Sizes in bytes, times in seconds."""

    max_message_bytes: int = 64 << 20
    max_frame_bytes: int = 256 << 10
    max_header_block_bytes: int = 16 << 10
    """Encoded, over HEADERS and CONTINUATION together."""
    max_header_list_bytes: int = 16 << 10
    """Decoded, as RFC 9113, 6.5.2 counts; a larger one is refused as a call."""
    hard_header_list_bytes: int = 64 << 10
    """Decoding stops here, and the connection ends with it."""
    max_continuations: int = 8
    max_streams: int = 512
    max_running: int = 100
    """Calls in their handlers; further ones wait, whole, in their turn."""
    max_queued_bytes: int = 16 << 20
    """Answers waiting for windows or the socket, made or expected; beyond it no further call begins."""
    credits_per_second: int = 1000
    max_credits: int = 4000
    max_unfinished_bytes: int = UNFINISHED_MESSAGES * (64 << 20)
    """Of the process: request bytes of all connections held for calls that have not begun."""
    max_connections: int = 4096
    """Of the process."""
    preface_seconds: float = 10.0
    idle_seconds: float = 900.0
    body_seconds: float = 60.0
    stall_seconds: float = 60.0
    """How long an answer may wait without the peer reading any of it."""
    drain_ping_seconds: float = 1.0

    @classmethod
    def of(cls, doors: DoorLimits) -> Limits:
        """Those of a process. Headers up to four times too large are still read, to be refused by name."""
        return cls(
            max_message_bytes=doors.message_bytes,
            max_header_list_bytes=doors.header_bytes,
            max_header_block_bytes=4 * doors.header_bytes,
            hard_header_list_bytes=4 * doors.header_bytes,
            max_streams=doors.streams,
            max_unfinished_bytes=doors.unfinished_bytes,
        )

    @property
    def stream_window(self) -> int:
        """Holds the largest message, so that no stream ever needs an update."""
        return min((1 << 31) - 1, max(65_535, self.max_message_bytes + 5 + self.max_frame_bytes))

    @property
    def connection_window(self) -> int:
        return self.stream_window

    @property
    def max_unread_bytes(self) -> int:
        """Request bytes held for calls that have not begun."""
        return 2 * self.max_message_bytes + self.max_frame_bytes


class Budget:
    """Credits of a connection: frames that carry no call cost one, answered calls and sent data earn some.

    Bounds rapid reset, PING, SETTINGS, WINDOW_UPDATE, PRIORITY and empty-frame floods (RFC 9113, 10.5)
    without counting kinds: a busy client earns what its own control frames cost.
    """

    __slots__ = ("_at", "_limits", "left")

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self.left = float(limits.max_credits)
        self._at = now

    def refill(self, now: float) -> None:
        limits = self._limits
        self.left = min(self.left + (now - self._at) * limits.credits_per_second, limits.max_credits)
        self._at = now

    def charge(self, cost: float) -> None:
        self.left -= cost
        if self.left < 0:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many frames without calls")
