"""What reclaim keeps in Redis: requests, cancels, runs under way, reports, troubles (keyspace RECLAIM_*).

Nothing here is decided by one command alone: a run is written at its new place before it leaves the old
one, so a process that dies in between leaves it at both, and the later place counts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from kvcm_platform.core.reclaim.open_run import MARKS, REQUEST, TTL, OpenRun
from kvcm_platform.core.reclaim.runs import ReclaimRequest, RunReport

from . import keyspace
from .connection import Connection

log = structlog.get_logger(__name__)

PAGE = 512
MOST_CANCELS = 10_000
REPORTS = 10_000
"""Entries kept in the stream of reports, about."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why nothing, or not everything, can be reclaimed of a group."""

    since_ms: int
    reason: str
    runs: tuple[tuple[int, int, str, int], ...] = ()
    """Runs that cannot be read: instance number, shard, name in hex, score."""

    @property
    def since(self) -> float:
        """In unix seconds."""
        return self.since_ms / 1000

    def dumps(self) -> str:
        return json.dumps({"since": self.since_ms, "reason": self.reason, "runs": self.runs})

    @classmethod
    def loads(cls, raw: bytes) -> Trouble:
        """Raises ValueError, KeyError, TypeError for what is none."""
        data = json.loads(raw)
        since_ms, reason = int(data["since"]), str(data["reason"])
        runs = tuple((int(a), int(b), str(c), int(d)) for a, b, c, d in data.get("runs", ()))
        return cls(since_ms, reason, runs)


@dataclass(slots=True)
class Book:
    """One reading of it."""

    cancels: set[str] = field(default_factory=set)
    requests: dict[str, ReclaimRequest] = field(default_factory=dict)
    open: dict[str, OpenRun] = field(default_factory=dict)
    """By run id."""
    settling: dict[str, OpenRun] = field(default_factory=dict)
    troubles: dict[str, Trouble] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)
    """`<group number>:<kind>` -> when the last automatic run of a kind began, in ms."""

    def ids(self) -> set[str]:
        return {*self.requests, *self.open, *self.settling}


def _text(raw: bytes | str) -> str:
    return raw.decode() if isinstance(raw, bytes) else raw


class ReclaimBook:
    def __init__(self, connection: Connection) -> None:
        self._call = connection.call

    async def read(self) -> Book:
        """What cannot be read of it is logged and taken out. Raises redis.RedisError.

        The order of the reads is that in which runs move, so that none is missed.
        """
        book = Book(cancels=await self._cancels())
        for name, raw in await self._hash(keyspace.RECLAIM_REQUESTS):
            try:
                book.requests[name] = ReclaimRequest.from_dict(json.loads(raw))
            except (ValueError, TypeError) as error:
                await self._drop(keyspace.RECLAIM_REQUESTS, name, error)
        for place, runs in (
            (keyspace.RECLAIM_OPEN, book.open),
            (keyspace.RECLAIM_SETTLING, book.settling),
        ):
            for name, raw in await self._hash(place):
                try:
                    run = OpenRun.loads(raw)
                except ValueError as error:
                    await self._drop(place, name, error)
                else:
                    runs[run.report.id] = run
        for name, raw in await self._hash(keyspace.RECLAIM_TROUBLES):
            try:
                book.troubles[name] = Trouble.loads(raw)
            except (ValueError, KeyError, TypeError) as error:
                await self._drop(keyspace.RECLAIM_TROUBLES, name, error)
        for name, raw in await self._hash(keyspace.RECLAIM_LAST):
            try:
                group_of_last(name)
                book.last[name] = int(raw)
            except ValueError as error:
                await self._drop(keyspace.RECLAIM_LAST, name, error)
        for run_id in set(book.open) & set(book.settling):
            # Its old place may be that of the group's next run by now: only the holder of the lease knows.
            del book.open[run_id]
        for run_id in (set(book.open) | set(book.settling)) & set(book.requests):
            await self._call("HDEL", keyspace.RECLAIM_REQUESTS, run_id)
            del book.requests[run_id]
        return book

    async def refresh(self, book: Book, group_number: int, group: str) -> None:
        """What `book` says of a group is as of now: whoever had its lease a moment ago may have begun runs,
        gone on with them, and ended them. Raises redis.RedisError.
        """
        runs = [*book.open.values(), *book.settling.values()]
        known = {run.report.id for run in runs if run.group_number == group_number}
        asked = [name for name, request in book.requests.items() if request.group == group]
        places = [f"{group_number}:{name}" for name in (MARKS, TTL, *sorted(known), *asked)]
        opened = await self._runs(keyspace.RECLAIM_OPEN, places)
        settling = await self._runs(keyspace.RECLAIM_SETTLING, sorted(known | set(opened)))
        for run_id in known:
            book.open.pop(run_id, None)
            book.settling.pop(run_id, None)
        book.settling.update(settling)
        for run_id, run in opened.items():
            if run_id in settling:
                await self._call("HDEL", keyspace.RECLAIM_OPEN, _place(run))
            else:
                book.open[run_id] = run
        if asked:
            left = await self._call("HMGET", keyspace.RECLAIM_REQUESTS, *asked)
            for name, raw in zip(asked, left, strict=True):
                if raw is None or name in opened:
                    book.requests.pop(name, None)
        kinds = [last_name(group_number, kind) for kind in (MARKS, TTL)]
        for name, raw in zip(kinds, await self._call("HMGET", keyspace.RECLAIM_LAST, *kinds), strict=True):
            with suppress(ValueError):  # which the next reading of all takes out
                book.last[name] = int(raw or 0)

    async def _runs(self, key: str, names: Sequence[str]) -> dict[str, OpenRun]:
        """By run id; what cannot be read is taken out by the next reading of all."""
        found = {}
        for raw in await self._call("HMGET", key, *names) if names else ():
            with suppress(ValueError):
                if raw is not None:
                    run = OpenRun.loads(raw)
                    found[run.report.id] = run
        return found

    async def _cancels(self) -> set[str]:
        found: set[str] = set()
        cursor = b"0"
        while True:
            cursor, part = await self._call("SSCAN", keyspace.RECLAIM_CANCELS, cursor, "COUNT", PAGE)
            found |= {_text(one) for one in part}
            if cursor == b"0" or len(found) >= MOST_CANCELS:
                return found

    async def _hash(self, key: str) -> list[tuple[str, bytes]]:
        flat = await self._call("HGETALL", key)
        return [(_text(name), raw) for name, raw in zip(flat[::2], flat[1::2], strict=True)]

    async def _drop(self, key: str, name: str, error: Exception) -> None:
        log.error("an entry of reclaim's records cannot be read", key=key, entry=name, reason=str(error))
        await self._call("HDEL", key, name)

    async def save(self, run: OpenRun) -> None:
        """A run that chooses blocks."""
        await self._call("HSET", keyspace.RECLAIM_OPEN, _place(run), run.dumps())
        if run.report.request is not None:
            await self._call("HDEL", keyspace.RECLAIM_REQUESTS, run.report.id)

    async def settle(self, run: OpenRun) -> None:
        """From now on it chooses no more."""
        await self._call("HSET", keyspace.RECLAIM_SETTLING, run.report.id, run.dumps())
        await self._call("HDEL", keyspace.RECLAIM_OPEN, _place(run))

    async def forget(self, run: OpenRun) -> None:
        await self._call("HDEL", keyspace.RECLAIM_SETTLING, run.report.id)
        await self._call("SREM", keyspace.RECLAIM_CANCELS, run.report.id)

    async def refuse(self, request: ReclaimRequest) -> None:
        """Takes a request off that never began."""
        await self._call("HDEL", keyspace.RECLAIM_REQUESTS, request.id)
        await self._call("SREM", keyspace.RECLAIM_CANCELS, request.id)

    async def report(self, report: RunReport) -> None:
        await self._call(
            *("XADD", keyspace.RECLAIM_REPORTS, "MAXLEN", "~", REPORTS, "*", "d"),
            json.dumps(report.to_dict()),
        )

    async def is_cancelled(self, run: OpenRun) -> bool:
        return bool(await self._call("SISMEMBER", keyspace.RECLAIM_CANCELS, run.report.id))

    async def forget_cancels(self, ids: Collection[str]) -> None:
        if ids:
            await self._call("SREM", keyspace.RECLAIM_CANCELS, *sorted(ids))

    async def note_last(self, group_number: int, kind: str, now_ms: int) -> None:
        await self._call("HSET", keyspace.RECLAIM_LAST, last_name(group_number, kind), now_ms)

    async def forget_last(self, names: Collection[str]) -> None:
        """`names` as of `last_name`."""
        if names:
            await self._call("HDEL", keyspace.RECLAIM_LAST, *names)

    async def note_trouble(self, group: str, known: Trouble | None, found: Trouble | None) -> None:
        """What stands in a group's way now; it keeps the time since when something does."""
        if found is None:
            if known is not None:
                await self._call("HDEL", keyspace.RECLAIM_TROUBLES, group)
            return
        since = known.since_ms if known is not None else found.since_ms
        trouble = Trouble(since, found.reason, found.runs)
        if trouble != known:
            await self._call("HSET", keyspace.RECLAIM_TROUBLES, group, trouble.dumps())


def trouble(reason: str, runs: tuple[tuple[int, int, str, int], ...] = ()) -> Trouble:
    return Trouble(round(time.time() * 1000), reason, runs)


def last_name(group_number: int, kind: str) -> str:
    return f"{group_number}:{kind}"


def group_of_last(name: str) -> int:
    """The group's number of a `last_name`. Raises ValueError for what is none."""
    return int(name.partition(":")[0])


def _place(run: OpenRun) -> str:
    name = run.report.id if run.kind == REQUEST else run.kind
    return f"{run.group_number}:{name}"
