"""A node that an operator asked to stand down (AdminService.LeaderDemote)."""

from __future__ import annotations

import time

from kvcm_platform.core.errors import Code, DomainError


class StandDown:
    """Whether this node was asked to stand down: until then its meta RPCs answer SERVER_NOT_LEADER."""

    def __init__(self) -> None:
        self._until = 0.0

    def set(self, milliseconds: int) -> None:
        self._until = time.monotonic() + milliseconds / 1000 if milliseconds > 0 else 0.0

    def is_set(self) -> bool:
        return self._until > 0 and time.monotonic() < self._until

    def check(self) -> None:
        if self.is_set():
            raise DomainError(Code.NOT_LEADER, "Server is not leader")
