"""What was done, out of the stream of facts: summed by the second, each entry once.

A second is that of the entry's id, which Redis gave it: ids only rise, so a position in the stream is a
position in time, whatever the clocks of processes say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import redis
import structlog

from apps.usage.choices import PLATFORM, Kind, SeriesKey
from apps.usage.packing import is_bucket_count
from kvcm_platform.core.points import Amounts, Levels, add_buckets
from kvcm_platform.core.registry import InstanceEntry, Registry
from kvcm_platform.index.facts import Facts, decode
from kvcm_platform.index.facts_tail import FactsTail

log = structlog.get_logger(__name__)
MOST_REMOVED = 10_000
"""Removed instances that are remembered: what comes of one later still counts for its group."""

LevelsOf = Callable[[SeriesKey], Levels | None]


@dataclass(slots=True)
class Second:
    """What the entries of one second say, and the id of the newest of them ("" = there is none).

    `amounts` are of instances; of those that nobody knows any more of the platform.
    """

    last_id: str = ""
    amounts: dict[SeriesKey, Amounts] = field(default_factory=lambda: defaultdict(Amounts))

    def spread(self) -> dict[SeriesKey, Amounts]:
        """The same with the sums of the groups and of the platform."""
        sums: dict[SeriesKey, Amounts] = defaultdict(Amounts)
        for key, amounts in self.amounts.items():
            sums[PLATFORM].add(amounts)
            if key.kind is Kind.INSTANCE:
                sums[SeriesKey(Kind.GROUP, key.group)].add(amounts)
                sums[key] = amounts
        return sums


class Traffic:
    """Counts on from `position`, the id of an entry of the stream that is counted already."""

    def __init__(self, position: str) -> None:
        self._tail = FactsTail(position)
        self._known: dict[str, InstanceEntry] = {}

    def follow(
        self,
        client: redis.Redis,
        registry: Registry,
        levels_of: LevelsOf,
        seconds: Mapping[int, Second],
        *,
        first: int,
        last: int,
    ) -> None:
        """Add what is new to `seconds`, a mapping that makes its values.

        Entries from before `first`, of which the points are written, count for it; those from after
        `last` (a server whose clock is ahead) for that. Raises redis.RedisError.
        """
        if len(self._known) > MOST_REMOVED + len(registry.instances):
            self._known.clear()
        self._known.update(registry.instances)
        for entry_id, fields in self._tail.entries(client):
            at = min(max(int(entry_id.partition("-")[0]) // 1000, first), last)
            second = seconds[at]
            try:
                self._add(second, decode(fields), levels_of)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                # Of a process of another version: the history goes on without it.
                log.error("an entry of the facts cannot be read", entry=entry_id, reason=repr(error))
            second.last_id = entry_id

    def _add(self, second: Second, facts: Facts, levels_of: LevelsOf) -> None:
        for instance_id in facts.instances.keys() | facts.latencies.keys():
            entry = self._known.get(instance_id)
            key = PLATFORM if entry is None else SeriesKey(Kind.INSTANCE, instance_id, entry.group)
            second.amounts[key].add(self._amounts(entry, instance_id, facts, levels_of))

    def _amounts(
        self, entry: InstanceEntry | None, instance_id: str, facts: Facts, levels_of: LevelsOf
    ) -> Amounts:
        counts = facts.instances.get(instance_id, {})
        tokens = 0 if entry is None or entry.has_values else entry.block_size
        written = counts.get("written_blocks", 0)
        amounts = Amounts(
            requests=counts.get("requests", 0),
            requested_blocks=counts.get("requested_blocks", 0),
            hit_blocks=counts.get("hit_blocks", 0),
            requested_tokens=counts.get("requested_blocks", 0) * tokens,
            hit_tokens=counts.get("hit_blocks", 0) * tokens,
            written_blocks=written,
            written_bytes=written * _block_bytes(entry, levels_of),
            removed_blocks=counts.get("removed_blocks", 0),
            write_refused=counts.get("write_refused", 0),
            quota_refused=counts.get("quota_refused", 0),
            failed_blocks=counts.get("failed_blocks", 0),
        )
        for kind, mine in (("read", amounts.read_us), ("write", amounts.write_us)):
            buckets = facts.latencies.get(instance_id, {}).get(kind, ())
            if is_bucket_count(buckets):
                add_buckets(mine, buckets)
        return amounts


def _block_bytes(entry: InstanceEntry | None, levels_of: LevelsOf) -> int:
    """The mean size of what it holds; before it holds anything that of a block with all its parts."""
    if entry is None:
        return 0
    levels = levels_of(SeriesKey(Kind.INSTANCE, entry.instance_id, entry.group))
    if levels is not None and levels.blocks:
        return (levels.writing_bytes + levels.serving_bytes) // levels.blocks
    return sum(spec.size for spec in entry.location_spec_infos)
