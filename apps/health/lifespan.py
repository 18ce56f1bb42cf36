"""What the web process does besides answering: its heartbeat and the live feed."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings

from apps.live.feed import running_feed
from apps.live.snapshots import stop_snapshot_feeds

from .heartbeats import beat_from_loop

Message = dict[str, Any]


async def lifespan(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """The ASGI lifespan: from the server's start to its stop."""
    await receive()
    # Django keeps bodies in the system's folder whatever FILE_UPLOAD_TEMP_DIR says.
    tempfile.tempdir = str(settings.FILE_UPLOAD_TEMP_DIR)
    feed = running_feed()
    beating = asyncio.create_task(beat_from_loop("web"))
    await send({"type": "lifespan.startup.complete"})
    await receive()
    beating.cancel()
    await feed.stop()
    await stop_snapshot_feeds()
    await asyncio.wait({beating})
    await send({"type": "lifespan.shutdown.complete"})
