"""Permits of groups with fairness limits (`core.admission.Permits`), drawn from token buckets in Redis.

A process draws a batch at a time, uses it within HELD_SECONDS and gives back the rest with its next
draw; a refusal is remembered until a batch is there again. So in any span of T seconds a group gets at
most `rate * T + burst + batch * processes`, where burst = max(1, rate / 10) and batch = max(1, rate / 50);
of blocks besides, those of the one call that passed the limit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import FairnessLimits, GroupEntry

from . import keyspace
from .connection import Commands
from .redis_index import guarded

HELD_SECONDS = 0.1
MAX_REMEMBERED_SECONDS = 1.0
"""A longer refusal is asked about again: the limit may have been raised."""
MAX_GROUPS = 10_000
_NAMES = {b"calls": "calls_per_second", b"blocks": "blocks_per_second"}


@dataclass(slots=True)
class _Held:
    """What a process holds for one group under these limits. -1 = no limit of this kind."""

    limits: FairnessLimits
    calls: int = 0
    blocks: int = 0
    good_until: float = 0.0
    refused_until: float = 0.0
    refusal: str = ""
    draw: asyncio.Lock = field(default_factory=asyncio.Lock)

    def has(self, blocks: int, now: float) -> bool:
        return now < self.good_until and self.calls != 0 and (self.blocks < 0 or self.blocks >= blocks)

    def spend(self, blocks: int) -> None:
        if self.calls > 0:
            self.calls -= 1
        if self.blocks > 0:
            self.blocks -= blocks


@dataclass(slots=True)
class PermitCounters:
    """Of one process: calls to Redis, and calls refused without one."""

    draws: int = 0
    refused_from_memory: int = 0


class RedisPermits:
    def __init__(self, commands: Commands, clock: Callable[[], float] = time.monotonic) -> None:
        self._commands = commands
        self._clock = clock
        self._groups: dict[int, _Held] = {}
        self.counters = PermitCounters()

    @guarded
    async def take(self, group: GroupEntry, blocks: int) -> None:
        held = self._groups.get(group.number)
        if held is None or (held.limits is not group.limits and held.limits != group.limits):
            held = self._remember(group)
        if held.has(blocks, self._clock()):
            held.spend(blocks)
            return
        self._check_refusal(held)
        async with held.draw:
            # Another call may have drawn, or been refused, meanwhile.
            self._check_refusal(held)
            if not held.has(blocks, self._clock()):
                await self._draw(group, held, blocks)
            held.spend(blocks)

    def holds(self, group: GroupEntry, blocks: int) -> bool:
        held = self._groups.get(group.number)
        return held is not None and held.limits is group.limits and held.has(blocks, self._clock())

    def spend(self, group: GroupEntry, blocks: int) -> None:
        self._groups[group.number].spend(blocks)

    def _remember(self, group: GroupEntry) -> _Held:
        if len(self._groups) >= MAX_GROUPS:
            self._groups.clear()
        held = self._groups[group.number] = _Held(group.limits)
        return held

    def _check_refusal(self, held: _Held) -> None:
        if self._clock() < held.refused_until:
            self.counters.refused_from_memory += 1
            raise DomainError(Code.TOO_MANY, held.refusal)

    async def _draw(self, group: GroupEntry, held: _Held, blocks: int) -> None:
        self.counters.draws += 1
        asked_at = self._clock()
        unused = max(0, held.calls), max(0, held.blocks)
        held.calls = held.blocks = 0
        base = keyspace.group(group.number)
        is_granted, *reply = await self._commands.call("FCALL", "kvcm_permits", 1, base, blocks, *unused)
        if is_granted:
            held.calls, held.blocks = reply
            held.good_until = asked_at + HELD_SECONDS
            return
        name, limit, wait_ms = reply
        held.refusal = f"group {group.name}: its limit of {limit.decode()} {_NAMES[name]} is used up"
        held.refused_until = asked_at + min(wait_ms / 1000, MAX_REMEMBERED_SECONDS)
        raise DomainError(Code.TOO_MANY, held.refusal)

    @guarded
    async def enter_session(
        self, group: GroupEntry, session_id: str, deadline_ms: int, max_sessions: int
    ) -> None:
        base = keyspace.group(group.number)
        is_granted, *most = await self._commands.call(
            "FCALL", "kvcm_session_enter", 1, base, session_id, deadline_ms, max_sessions
        )
        if not is_granted:
            ratio = group.limits.write_session_ratio
            raise DomainError(
                Code.TOO_MANY,
                f"group {group.name}: {most[0]} write sessions are open (write_session_ratio {ratio:g})",
            )

    @guarded
    async def leave_session(self, group: GroupEntry, session_id: str) -> None:
        key = keyspace.group_sessions(keyspace.group(group.number))
        await self._commands.call("ZREM", key, session_id)
