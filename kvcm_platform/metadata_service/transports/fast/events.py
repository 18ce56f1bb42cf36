"""What the frame machine tells its owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Call:
    """A whole request. `deadline` is on the clock that the machine is given."""

    stream_id: int
    route: Any
    message: bytes
    is_compressed: bool
    credentials: tuple[str, str]
    deadline: float | None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The peer, or a limit, ended a call that has begun: its answer is no longer wanted."""

    stream_id: int


Event = Call | Cancelled
