"""What one child is: its command and how it is watched."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One process to keep running."""

    name: str
    """Names the log file and the terminal prefix."""
    role: str
    """The heartbeat's role; "" for a process without heartbeat (ready once it has run a while)."""
    command: tuple[str, ...]
    stage: int
    """Stages stop in descending order: a process is stopped before those it needs."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """In addition to the environment that all children get."""
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 2.0
    """From the stop signal to SIGKILL."""
    death_signal: signal.Signals = signal.SIGKILL
    """What the kernel sends it when the supervisor dies."""
    kept_descriptors: tuple[int, ...] = ()
    user: int | None = None
    group: int | None = None
    """Other than the supervisor's own; needs root."""
