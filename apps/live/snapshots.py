"""Drives the live topics that apps declare: one task a topic and web process, asleep while nobody looks.

While somebody does, the app's snapshot is read every `every_seconds` and sent when it differs, and at
the latest after QUIET_SECONDS, so that a browser can tell silence from an end. Every web process has its
own Channels group, as in `feed.py`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import structlog
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.db import DatabaseError, InterfaceError
from redis.exceptions import RedisError

from apps.common.actor import Actor, Role

from .overview import Picture, iso

log = structlog.get_logger(__name__)

LEAST_GAP_SECONDS = 0.5
"""At most two pictures a second, however many subscribe."""
QUIET_SECONDS = 5.0
_IDLE_LOOK_SECONDS = 0.1
_AWAY = (DatabaseError, InterfaceError, RedisError, OSError)


class FeedUnavailable(Exception):
    """The database or the index does not answer: there is no picture now."""


@dataclass(frozen=True, slots=True)
class SnapshotTopic:
    """A topic of an app, listed in its `live.py` as TOPICS.

    `snapshot` reads the whole picture, JSON-ready, bounded in size and time; it runs in a thread and may
    raise DatabaseError or RedisError. `narrowed` gives of it what an account may see.
    """

    name: str
    snapshot: Callable[[], Picture]
    narrowed: Callable[[Picture, Actor], Picture]
    role: Role = Role.VIEWER
    every_seconds: float = 1.0


class SnapshotFeed:
    """The numbered pictures of one topic. `subscribers` is kept by the consumers."""

    def __init__(self, topic: SnapshotTopic) -> None:
        self.group = f"{topic.name}.{os.getpid()}"
        self.seq = 0
        self.subscribers = 0
        self._topic = topic
        self._reading = asyncio.Lock()
        self._read_at = 0.0
        self._picture: Picture = {}
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
        """A message with the picture of now; changes follow on its number. Raises FeedUnavailable."""
        seq = self.seq
        try:
            picture = await self._read()
        except _AWAY as error:
            log.warning("a live topic cannot be read", topic=self._topic.name, error=str(error))
            raise FeedUnavailable(f"The topic {self._topic.name} cannot be read now.") from error
        return self._message(seq, "snapshot", picture)

    async def _run(self) -> None:
        sent: Picture | None = None
        sent_at = 0.0
        while not self._is_stopped:
            if not self.subscribers:
                await asyncio.sleep(_IDLE_LOOK_SECONDS)
                continue
            try:
                picture = await self._read()
                if picture != sent or time.monotonic() - sent_at >= QUIET_SECONDS:
                    await self._send(picture)
                    sent, sent_at = picture, time.monotonic()
            except _AWAY as error:
                log.warning("a live topic cannot be read", topic=self._topic.name, error=str(error))
            except Exception:
                # Those who look would hear nothing more until the next one comes.
                log.exception("a live topic failed", topic=self._topic.name)
            await asyncio.sleep(max(LEAST_GAP_SECONDS, self._topic.every_seconds))

    async def _read(self) -> Picture:
        async with self._reading:
            if time.monotonic() - self._read_at >= LEAST_GAP_SECONDS or not self._picture:
                # Not on the thread that all requests share: a picture may take as long as its stores do.
                read = database_sync_to_async(self._topic.snapshot, thread_sensitive=False)
                self._picture = await read()
                self._read_at = time.monotonic()
            return self._picture

    async def _send(self, picture: Picture) -> None:
        self.seq += 1
        message = self._message(self.seq, "change", picture)
        await get_channel_layer().group_send(self.group, {"type": "live.message", "message": message})

    def _message(self, seq: int, kind: str, picture: Picture) -> dict[str, Any]:
        name = self._topic.name
        return {"topic": name, "seq": seq, "at": iso(time.time()), "kind": kind, "data": picture}


_feeds: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, SnapshotFeed]] = WeakKeyDictionary()


def snapshot_feed(topic: SnapshotTopic) -> SnapshotFeed:
    """The topic's feed in the running event loop, started when nobody did yet."""
    feeds = _feeds.setdefault(asyncio.get_running_loop(), {})
    feed = feeds.get(topic.name)
    if feed is None:
        feed = feeds[topic.name] = SnapshotFeed(topic)
    feed.start()
    return feed


async def stop_snapshot_feeds() -> None:
    """End those of the running event loop."""
    for feed in _feeds.pop(asyncio.get_running_loop(), {}).values():
        await feed.stop()
