"""Fairness between instance groups: what a group may ask for a second, and how many sessions it may hold.

Queries and Starts take permits; Finish, Remove, Trim and registrations never do, because they give
back what was taken. Only groups with limits pay for them.
"""

from __future__ import annotations

from typing import Protocol

from .errors import Code, DomainError
from .ports import Facts
from .registry import GroupEntry


class Permits(Protocol):
    """Where permits come from (kvcm_platform.index.permits.RedisPermits): one store for all processes."""

    async def take(self, group: GroupEntry, blocks: int) -> None:
        """Takes the permits of one call about so many blocks. Raises DomainError(TOO_MANY)."""
        ...

    def holds(self, group: GroupEntry, blocks: int) -> bool:
        """Whether `spend` may take these permits at once."""
        ...

    def spend(self, group: GroupEntry, blocks: int) -> None:
        """The same as `take` right after `holds`."""
        ...

    async def enter_session(
        self, group: GroupEntry, session_id: str, deadline_ms: int, max_sessions: int
    ) -> None:
        """Counts a session until its deadline or `leave_session`. Raises DomainError(TOO_MANY).

        `max_sessions` is what one instance may hold open; the group's limit is a share of it.
        """
        ...

    async def leave_session(self, group: GroupEntry, session_id: str) -> None: ...


class Admission:
    """Applies a group's limits and counts what came of it."""

    def __init__(self, permits: Permits, facts: Facts) -> None:
        self._permits = permits
        self._facts = facts

    async def call(self, group: GroupEntry, blocks: int) -> None:
        """Raises TOO_MANY for a call past `calls_per_second` or `blocks_per_second` of its group."""
        try:
            await self._permits.take(group, blocks)
        except DomainError as error:
            if error.code is Code.TOO_MANY:
                self._facts.add_group(group.name, refused_calls=1, refused_blocks=blocks)
            raise
        self._facts.add_group(group.name, allowed_calls=1, allowed_blocks=blocks)

    def holds(self, group: GroupEntry, blocks: int) -> bool:
        """Whether `spend` may stand for `call`."""
        return self._permits.holds(group, blocks)

    def spend(self, group: GroupEntry, blocks: int) -> None:
        """`call` without I/O, right after `holds`."""
        self._permits.spend(group, blocks)
        self._facts.add_group(group.name, allowed_calls=1, allowed_blocks=blocks)

    async def session(self, group: GroupEntry, session_id: str, deadline_ms: int, max_sessions: int) -> None:
        """Raises TOO_MANY for a session past `write_session_ratio` of its group."""
        try:
            await self._permits.enter_session(group, session_id, deadline_ms, max_sessions)
        except DomainError as error:
            if error.code is Code.TOO_MANY:
                self._facts.add_group(group.name, refused_sessions=1)
            raise

    async def session_ended(self, group: GroupEntry, session_id: str) -> None:
        await self._permits.leave_session(group, session_id)
