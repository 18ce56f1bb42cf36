"""Drives the live topic `overview`: one task a web process that wakes on facts and sends pictures.

A picture goes to this process's own Channels group, because every web process has a feed: with
one group for all, a browser would get each picture once per web process.
"""

from __future__ import annotations

import asyncio
import os
import time
from weakref import WeakKeyDictionary

import structlog
from channels.layers import get_channel_layer
from django.conf import settings
from redis.exceptions import RedisError

from kvcm_platform.index import keyspace
from kvcm_platform.index.connecting import connection_to
from kvcm_platform.index.connection import CALL_SECONDS, Connection

from .history import SLOT_SECONDS
from .overview import Picture, iso, overview

TOPIC = "overview"
log = structlog.get_logger(__name__)

LEAST_GAP_SECONDS = 0.5
"""At most two pictures a second, and none later than this after the first fact it must show."""
_RETRY_SECONDS = 1.0
_IDLE_LOOK_SECONDS = 0.1


class Feed:
    """The overview's numbered pictures. `subscribers` is kept by the consumers."""

    def __init__(self) -> None:
        self.group = f"overview.{os.getpid()}"
        self.seq = 0
        self.subscribers = 0
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False

    def start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        # The flag as well: before Python 3.12 a cancellation can get lost in the channel layer's client.
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def snapshot(self) -> Picture:
        """A message with the whole picture; the next change follows on its number."""
        seq = self.seq
        picture = await asyncio.to_thread(overview().picture)
        return {"topic": TOPIC, "seq": seq, "at": iso(time.time()), "kind": "snapshot", "data": picture}

    async def _run(self) -> None:
        connection = connection_to(settings.KVCM_REDIS_URL)
        try:
            while not self._is_stopped:
                try:
                    await self._tail(connection)
                except (RedisError, OSError) as error:
                    log.warning("live feed lost Redis", error=str(error))
                    await asyncio.sleep(_RETRY_SECONDS)
                except Exception:
                    # Those who look would hear nothing more until the next one comes.
                    log.exception("live feed failed")
                    await asyncio.sleep(_RETRY_SECONDS)
        finally:
            await connection.close()

    async def _tail(self, connection: Connection) -> None:
        """Send at once, then after each fact as soon as the gap allows, at the latest for the next slot."""
        while not self._is_stopped:
            # Taken before the picture is read: a fact that comes between is shown twice, never late.
            last_id = await _last_id(connection)
            await self._send()
            sent_at = time.monotonic()
            while (left := sent_at + SLOT_SECONDS - time.monotonic()) > 0:
                if not self.subscribers:
                    await asyncio.sleep(min(left, _IDLE_LOOK_SECONDS))
                elif await _wait_for_fact(connection, last_id, left):
                    await asyncio.sleep(max(0.0, sent_at + LEAST_GAP_SECONDS - time.monotonic()))
                    break

    async def _send(self) -> None:
        change = await asyncio.to_thread(overview().change)
        if not self.subscribers:
            return
        self.seq += 1
        message = {"seq": self.seq, "at": iso(time.time()), "kind": "change", "data": change}
        await get_channel_layer().group_send(
            self.group, {"type": "live.message", "message": {"topic": TOPIC, **message}}
        )


async def _last_id(connection: Connection) -> bytes:
    newest = await connection.call("XREVRANGE", keyspace.FACTS, "+", "-", "COUNT", 1)
    return newest[0][0] if newest else b"0"


async def _wait_for_fact(connection: Connection, last_id: bytes, seconds: float) -> bool:
    """Whether a fact came within this time. Nothing else may use the connection meanwhile."""
    milliseconds = max(1, int(seconds * 1000))
    found = await connection.call(
        *("XREAD", "BLOCK", milliseconds, "STREAMS", keyspace.FACTS, last_id), timeout=seconds + CALL_SECONDS
    )
    return bool(found)


_feeds: WeakKeyDictionary[asyncio.AbstractEventLoop, Feed] = WeakKeyDictionary()


def running_feed() -> Feed:
    """The feed of the running event loop, started when nobody did yet."""
    feed = _feeds.setdefault(asyncio.get_running_loop(), Feed())
    feed.start()
    return feed
