"""Waits for what another thread or process brings about."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


def eventually(holds: Callable[[], object], *, seconds: float = 30.0) -> None:
    """Asks until the answer is true; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"did not come true within {seconds} s"
        time.sleep(0.02)


async def eventually_async(holds: Callable[[], object], *, seconds: float = 30.0) -> None:
    """The same for what the running event loop brings about."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"did not come true within {seconds} s"
        await asyncio.sleep(0.02)
