"""Looks for shards and groups that lost single keys by themselves, and makes them whole (index/damage.py).

A look costs one small function a shard and one a group, many of them in one round trip. What does not fit
must not fit in two looks in a row, so that nothing is judged by what a Cluster shows while it moves slots.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from kvcm_platform.core.damage import Lost, Pulse
from kvcm_platform.core.registry import GroupEntry, InstanceEntry
from kvcm_platform.core.removal import delete_delay_ms
from kvcm_platform.duties.session import IndexSession
from kvcm_platform.index import damage, keyspace
from kvcm_platform.index.connection import Fenced
from kvcm_platform.index.damage import Damage, Mending
from kvcm_platform.index.local.connection import LocalConnection
from kvcm_platform.index.registry import limits_command
from kvcm_platform.index.shards import ShardRef, shards_of

log = structlog.get_logger(__name__)

LOOK_MS = 5000
REMEMBER_MS = 60_000
"""A look counts for nothing when the next one is later."""
SHARDS_ASKED = 500
GROUPS_ASKED = 64
"""In one turn, as the totals of each are summed up anew."""


@dataclass(frozen=True, slots=True)
class _Shard:
    entry: InstanceEntry
    ref: ShardRef
    pulse: Pulse
    sequence: int
    """As its group has it."""

    @property
    def lost(self) -> frozenset[Lost]:
        lost = self.pulse.lost()
        return lost | {Lost.USAGE} if self.pulse.sequence < self.sequence else lost

    @property
    def name(self) -> str:
        one = self.entry.instance_id
        return one if self.entry.shards == 1 else f"{one}/shard {self.ref.shard}"


class DamageCheck:
    """One look at everything, at most every LOOK_MS whoever looks, and what is to be done then."""

    def __init__(self, session: IndexSession, deadline: float) -> None:
        """`deadline` (time.monotonic): what is to be mended after it is left to the next look."""
        self._session = session
        self._index = session.index
        self._deadline = deadline

    async def run(self) -> list[Damage]:
        """What was made whole, or could not be. Raises Fenced, redis.RedisError."""
        call = self._index.connection.call
        if isinstance(self._index.connection, LocalConnection):
            return []  # what lies in this process goes as a whole or not at all
        if await call("SET", keyspace.DAMAGE_LOOKED, 1, "NX", "PX", LOOK_MS) is None:
            return []
        suspects = {one.ref.base: one for one in await self._shards() if one.lost}
        before = json.loads(await call("GET", keyspace.DAMAGE_SUSPECTS) or "{}")
        if suspects or before:
            seen = {base: sorted(one.lost) for base, one in suspects.items()}
            await call("SET", keyspace.DAMAGE_SUSPECTS, json.dumps(seen), "PX", REMEMBER_MS)
        found: dict[str, Damage] = {}
        for base, one in suspects.items():
            if one.lost & set(before.get(base, ())) and time.monotonic() < self._deadline:
                found[base] = await self._mend(one)
        found.update(await self._groups())
        return await self._note(found) if found else []

    async def _note(self, found: dict[str, Damage]) -> list[Damage]:
        """Puts it on record; returns what is news."""
        known = await damage.known(self._index, list(found))
        news = []
        for key, one in found.items():
            before = known.get(key)
            if before is not None and before.mended_at is None:
                found[key] = one = replace(one, found_at=before.found_at)
                if one.mended_at is None:
                    continue
            log.warning("keys of the index were lost", what=one.sentence)
            news.append(one)
        await damage.note(self._index, found, time.time())
        return news

    async def _shards(self) -> list[_Shard]:
        """All that can be judged now: not those in doubt, nor those of removed instances."""
        leaving = {entry.number for entry in self._session.leaving}
        wanted = [
            (entry, ref)
            for entry in self._session.instances
            if entry.number not in leaving
            for ref in shards_of(entry)
            if not self._is_in_doubt(ref)
        ]
        found: list[_Shard] = []
        for at in range(0, len(wanted), SHARDS_ASKED):
            found += await self._ask(wanted[at : at + SHARDS_ASKED])
        return found

    async def _ask(self, wanted: Sequence[tuple[InstanceEntry, ShardRef]]) -> list[_Shard]:
        refs = [ref for _, ref in wanted]
        # Before the shards: no group knows more of a shard than the shard itself does later.
        vectors = await damage.vector_sequences(self._index, refs)
        pulses = await damage.pulses(self._index, refs)
        return [
            _Shard(entry, ref, pulse, sequence if pulse.generation in (0, generation) else 0)
            for (entry, ref), pulse, (generation, sequence) in zip(wanted, pulses, vectors, strict=True)
        ]

    def _is_in_doubt(self, ref: ShardRef) -> bool:
        life = self._index.connection.life_of(ref.base)
        return bool(life.doubt) or life.is_undecided

    async def _mend(self, one: _Shard) -> Damage:
        group = self._session.registry.groups.get(one.entry.group)
        mending = Mending(self._index, one.entry, one.ref, delete_delay_ms(group))
        found = Damage(f"Instance {one.name}", one.entry.group, tuple(sorted(one.lost)), time.time())
        try:
            await mending.run(one.sequence)
        except Fenced:
            raise
        except Exception as error:
            log.exception("a shard could not be made whole", shard=one.ref.base)
            return replace(found, trouble=f"{type(error).__name__}: {error}", blocks=mending.blocks_lost)
        self._index.on_removal(one.entry)
        return replace(found, mended_at=time.time(), blocks=mending.blocks_lost)

    async def _groups(self) -> dict[str, Damage]:
        """What groups had lost and have again, by the base of their keys."""
        wanted = [
            group
            for group in self._session.registry.groups.values()
            if group.number not in self._session.cut_off
        ]
        found: dict[str, Damage] = {}
        for at in range(0, len(wanted), GROUPS_ASKED):
            part = wanted[at : at + GROUPS_ASKED]
            looks = [_look(keyspace.group(group.number)) for group in part]
            replies = iter(await self._index.connection.pipeline([one for look in looks for one in look]))
            for group, look in zip(part, looks, strict=True):
                lost = await self._lost_of(group, [next(replies) for _ in look])
                if lost:
                    now = time.time()
                    found[keyspace.group(group.number)] = Damage(
                        f"Group {group.name}", group.name, tuple(sorted(lost)), now, now
                    )
        return found

    async def _lost_of(self, group: GroupEntry, replies: Sequence[Any]) -> set[Lost]:
        """`replies` to the group's `_look`, which has put its totals right; the rest is mended here."""
        has_totals, used, vectors, has_limits, deadlines, reservations, is_changed = replies
        base, call = keyspace.group(group.number), self._index.connection.call
        lost: set[Lost] = set()
        if not has_limits:
            await call("FCALL", "kvcm_limits", *limits_command(group, group.version)[2:])
            lost.add(Lost.LIMITS)
        if deadlines != reservations and await call("FCALL", "kvcm_mend_reservations", 1, base):
            lost.add(Lost.RESERVATIONS)
        if is_changed and ((vectors and not has_totals) or (not vectors and int(used or 0) > 0)):
            lost.add(Lost.TOTALS)
        elif is_changed:
            log.info("totals of a group were put right", group=group.name)
        return lost


def _look(base: str) -> list[tuple[object, ...]]:
    """The commands of a look at a group: what is there, and then its totals are put right."""
    return [
        ("EXISTS", base),
        ("HGET", base, "u"),
        ("HLEN", keyspace.group_vectors(base)),
        ("HEXISTS", keyspace.group_limits(base), "total"),
        ("ZCARD", keyspace.group_reservation_deadlines(base)),
        ("HLEN", keyspace.group_reservations(base)),
        ("FCALL", "kvcm_retotal", 1, base),
    ]
