"""Tells control that a group needs room (the stream `kvcm:wake`), and whoever reclaims what was refused.

A wake is a hint: one that is lost costs the seconds until the next look at all groups, so nobody who
answers a call waits for one, and none fails because of one.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection
from enum import StrEnum

import structlog
from redis.exceptions import RedisError

from kvcm_platform.core.reclaim.marks import Scope, Subject

from . import keyspace
from .connection import Connection

log = structlog.get_logger(__name__)

REFUSED_SECONDS = 0.1
MARK_SECONDS = 0.25
"""A process tells of one refused limit, and of one group at its mark, at most that often."""
MOST_REMEMBERED = 10_000
LENGTH = 1000
"""Entries of the stream, approximately."""


class Wake(StrEnum):
    """Why somebody should look at a group.

    REFUSED: a Start found no room. MARK: a Start or a Finish came to a high mark. LIMITS: they were
    changed. STORAGE: one came to its high mark; such an entry names no group.
    """

    REFUSED = "refused"
    MARK = "mark"
    LIMITS = "limits"
    STORAGE = "storage"


NEED_ROOM = frozenset(Wake)
"""Reasons to reclaim; the stream has others, of which whoever writes them tells nothing here."""


def wake_command(reason: Wake, **fields: str | int) -> tuple[str | int, ...]:
    """`group` names the group, or `number` where the name is not known."""
    pairs = [part for item in fields.items() for part in item]
    return ("XADD", keyspace.WAKE, "MAXLEN", "~", LENGTH, "*", "reason", reason.value, *pairs)


class Waker:
    """Of one process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._told_at: dict[object, float] = {}
        self._marked: set[int] = set()

    def marked(self, group_number: int) -> None:
        """Notes that a mark of a group was reached; `flush` tells."""
        self._marked.add(group_number)

    async def flush(self) -> None:
        """Called with the pushes of usage, every 50 ms or so.

        A group that came to its mark a moment after it was told of waits for its turn: nobody may write to
        it any more and tell again.
        """
        due = [number for number in self._marked if self._is_time(number, MARK_SECONDS)]
        self._marked.difference_update(due)
        await self._send([wake_command(Wake.MARK, number=number) for number in due])

    async def refused(self, group: str, subjects: Collection[Subject], wanted: int = 0) -> None:
        """Tells that a Start was refused for these limits, and notes them for `refusals`.

        `wanted` bytes, or blocks, were asked for: one of at least twice as much as those that were told of
        does not wait for its turn behind them.
        """
        size = wanted.bit_length()
        due = [subject for subject in subjects if self._is_time((group, subject, size), REFUSED_SECONDS)]
        if not due:
            return
        scored = [part for subject in due for part in (wanted, _field(group, subject))]
        # In this order: who is woken finds what was refused.
        await self._send(
            [("ZADD", keyspace.RECLAIM_WANTED, "GT", *scored), wake_command(Wake.REFUSED, group=group)]
        )

    def _is_time(self, what: object, seconds: float) -> bool:
        now = time.monotonic()
        if now - self._told_at.get(what, -seconds) < seconds:
            return False
        if len(self._told_at) > MOST_REMEMBERED:
            self._told_at.clear()
        self._told_at[what] = now
        return True

    async def _send(self, commands: list[tuple[str | int, ...]]) -> None:
        try:
            for command in commands:
                await self._connection.call(*command)
        except RedisError as error:
            log.debug("nobody was woken", reason=str(error))


def _field(group: str, subject: Subject) -> str:
    return f"{group}|{subject.scope.value}|{subject.name}"


Refusals = dict[str, dict[Subject, int]]
"""Group -> limit -> the most that a Start asked for there (bytes; of Scope.KEYS blocks)."""


async def refusals(connection: Connection) -> Refusals:
    """Limits that Starts were refused for and nobody forgot yet."""
    flat = await connection.call("ZRANGE", keyspace.RECLAIM_WANTED, 0, -1, "WITHSCORES")
    found: Refusals = defaultdict(dict)
    for field, wanted in zip(flat[::2], flat[1::2], strict=True):
        try:
            group, scope, name = field.decode().split("|", 2)
            found[group][Subject(Scope(scope), name)] = int(float(wanted))
        except ValueError as error:
            log.error("what was refused cannot be read", entry=repr(field), reason=str(error))
            await connection.call("ZREM", keyspace.RECLAIM_WANTED, field)
    return dict(found)


async def refusals_forget(connection: Connection, group: str, subjects: Collection[Subject]) -> None:
    """Called before usage is read and room is made: what is refused afterwards is on record anew."""
    if subjects:
        await connection.call("ZREM", keyspace.RECLAIM_WANTED, *(_field(group, one) for one in subjects))
