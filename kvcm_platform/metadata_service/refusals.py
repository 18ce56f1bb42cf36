"""What is logged of refused calls."""

from __future__ import annotations

import time
from typing import Any

import structlog

from kvcm_platform.core.errors import Code, DomainError

log = structlog.get_logger(__name__)
SHOWN = 256
"""Characters of a caller's text that a log line repeats."""
FLOOD_SECONDS = 1.0


class RefusalLog:
    """Logs refused calls; of those that came too fast one a second, since a flood must cost little."""

    def __init__(self) -> None:
        self._left_out = 0
        self._flood_logged_at = -FLOOD_SECONDS

    def note(self, rpc: str, request_id: str, failed: DomainError) -> None:
        values: dict[str, Any] = {"code": failed.code, "reason": failed.message[:SHOWN]}
        if failed.code is Code.TOO_MANY:
            now = time.monotonic()
            if now - self._flood_logged_at < FLOOD_SECONDS:
                self._left_out += 1
                return
            values["left_out"], self._left_out, self._flood_logged_at = self._left_out, 0, now
        log.info("call refused", rpc=rpc, request_id=request_id[-SHOWN:], **values)
