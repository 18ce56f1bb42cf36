"""What keeps a group from giving blocks back, on record until it is over (RECLAIM_TROUBLES)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog
from redis.exceptions import RedisError

from kvcm_platform.duties.session import IndexSession
from kvcm_platform.index.ages import Run
from kvcm_platform.index.reclaim_book import ReclaimBook, Trouble, trouble
from kvcm_platform.index.run_views import Sought, look
from kvcm_platform.index.shards import ShardRef

log = structlog.get_logger(__name__)

MOST_NAMED = 8
"""Runs that cannot be read which a trouble names."""

Unreadable = tuple[Run, str]
"""A run of blocks, and why it cannot be read."""


class Troubles:
    """Those that were known when a round began, and what it finds. `count` = groups that have one now."""

    def __init__(self, session: IndexSession, book: ReclaimBook, known: Mapping[str, Trouble]) -> None:
        self._session = session
        self._book = book
        self._known = known
        self.count = 0

    async def failed(self, group: str, error: Exception) -> None:
        """Nothing can be reclaimed of a group. Raises nothing: it is called where something failed."""
        self.count += 1
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        try:
            await self._book.note_trouble(group, self._known.get(group), trouble(reason))
        except RedisError:
            log.warning("the trouble could not be noted", group=group)

    async def poisoned(self, group: str, found: Sequence[Unreadable]) -> None:
        """Some runs of a group cannot be read, the others went on; with none it is looked at anew."""
        if not found:
            await self.clear(group)
            return
        self.count += 1
        await self._book.note_trouble(group, self._known.get(group), _poisoned(found))

    async def clear(self, group: str) -> None:
        """Takes a trouble off that is over. Runs that could not be read are looked at again."""
        known = self._known.get(group)
        if known is None:
            return
        found = await self._still_poisoned(group, known)
        self.count += bool(found)
        await self._book.note_trouble(group, known, _poisoned(found) if found else None)

    async def _still_poisoned(self, group: str, known: Trouble) -> list[Unreadable]:
        entries = {entry.number: entry for entry in self._session.instances_of(group)}
        runs = [
            Run(
                entries[number],
                ShardRef(number, shard, entries[number].group_number),
                *(bytes.fromhex(name), score),
            )
            for number, shard, name, score in known.runs
            if number in entries
        ]
        if not runs:
            return []
        looked = await look(self._session.index, runs, Sought(self._session.index.now_ms()))
        return [(one.run, one.reason) for one in looked.poisoned]


def _poisoned(found: Sequence[Unreadable]) -> Trouble:
    by_run = {(run.shard, run.name): (run, reason) for run, reason in found}
    run, reason = found[0]
    more = f" ({len(by_run)} runs of blocks in all)" if len(by_run) > 1 else ""
    where = tuple(
        (one.instance.number, one.shard.shard, one.name.hex(), one.score)
        for one, _ in list(by_run.values())[:MOST_NAMED]
    )
    return trouble(f"blocks of instance {run.instance.instance_id} cannot be read: {reason}{more}", where)
