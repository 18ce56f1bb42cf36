"""Follows the event streams of instances' shards for the search cache (DESIGN 4.5).

Every change of a shard is one entry with the epoch after it, so a gap shows. Where the newest entry
is the last one applied, the cached blocks are right as of the moment it was asked for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from . import keyspace
from .chunks import InstanceChunks, StreamPosition
from .connection import READ_SECONDS, Connection, IndexUnavailable
from .usage import as_dict

STREAM_BATCH = 1000
MAX_CONFIRMS = 100


class StreamGap(Exception):
    """An entry is missing: what it dropped is not known."""


class StreamFollower:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def confirm(self, cache: InstanceChunks, since: float) -> None:
        """Returns when the position was asked for at `since` or later. Calls that wait share the asking."""
        since = max(since, cache.distrusted_at)
        for _ in range(MAX_CONFIRMS):
            if cache.confirmed_at >= since:
                return
            if cache.refreshing is None or cache.refreshing.done():
                cache.refreshing = asyncio.ensure_future(self.refresh([cache]))
            await asyncio.shield(cache.refreshing)
        raise IndexUnavailable("the event stream moves faster than it can be followed")

    async def refresh(self, caches: Sequence[InstanceChunks]) -> None:
        """Asks what is new in the streams of these parts, in one pipeline, and applies it."""
        asked_at = time.monotonic()
        commands: list[tuple[Any, ...]] = []
        known: list[list[tuple[int | None, bytes]]] = []
        for cache in caches:
            known.append([(stream.epoch, stream.entry) for stream in cache.streams])
            for stream in cache.streams:
                commands += _questions(stream)
        replies = iter(await self._connection.pipeline(commands, timeout=READ_SECONDS))
        for cache, before in zip(caches, known, strict=True):
            answers = [(next(replies), int(next(replies) or 0)) for _ in cache.streams]
            if [(stream.epoch, stream.entry) for stream in cache.streams] != before:
                continue  # another confirmation was faster; this one says nothing new
            if cache.generation != self._connection.generation_of(cache.base):
                # The answer is that of another life, whose stream says nothing about what is kept here.
                cache.begin_life(self._connection.generation_of(cache.base))
                continue
            if self._apply_all(cache, answers):
                cache.confirmed_at = asked_at

    def _apply_all(self, cache: InstanceChunks, answers: Sequence[tuple[list[Any], int]]) -> bool:
        is_current = True
        for stream, (entries, epoch) in zip(cache.streams, answers, strict=True):
            try:
                is_current &= self._apply(cache, stream, entries, epoch)
            except StreamGap:
                cache.reset()
                return False
        return is_current

    def _apply(self, cache: InstanceChunks, stream: StreamPosition, entries: list[Any], epoch: int) -> bool:
        """Follows one stream; whether its position is the newest there was when it was asked for.

        Raises StreamGap.
        """
        if stream.epoch is None:
            # XREVRANGE came before HGET: the position may be older than the epoch, never newer.
            last = as_dict(entries[0][1]) if entries else {}
            stream.epoch = int(last.get(b"e", b"0")) if entries else epoch
            stream.entry = entries[0][0] if entries else b"-"
            return True
        for entry_id, flat in entries:
            event = as_dict(flat)
            if int(event[b"e"]) != stream.epoch + 1:
                raise StreamGap
            stream.epoch += 1
            stream.entry = entry_id
            if event[b"r"]:
                cache.drop(event[b"r"])
        if len(entries) == STREAM_BATCH:
            return False  # there is more
        if epoch < stream.epoch or (not entries and epoch != stream.epoch):
            raise StreamGap
        return True


def _questions(stream: StreamPosition) -> list[tuple[Any, ...]]:
    """What is new in a stream, and the epoch to compare with."""
    name = keyspace.events(stream.base)
    if stream.epoch is None:
        newest: tuple[Any, ...] = ("XREVRANGE", name, "+", "-", "COUNT", 1)
    else:
        start = b"-" if stream.entry == b"-" else b"(" + stream.entry
        newest = ("XRANGE", name, start, "+", "COUNT", STREAM_BATCH)
    return [newest, ("HGET", stream.base, "epoch")]
