"""What a migration would move now, and how old it is: the same walk, without a copy."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from kvcm_platform.core import migration as rules
from kvcm_platform.core.migration import CopyRequest, Occupancy
from kvcm_platform.core.registry import GroupEntry
from kvcm_platform.core.types import Retention
from kvcm_platform.duties.copies import MOST_RUNS
from kvcm_platform.duties.session import IndexSession
from kvcm_platform.index import copying
from kvcm_platform.index.ages import AgeWalk, HeldRun
from kvcm_platform.index.held_bytes import live_usage

PREVIEW_SECONDS = 2.0
AGES_SECONDS = (0, 60, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600)
"""Where the age classes begin."""


@dataclass(slots=True)
class AgeClass:
    """Blocks on the source that were last used at least so long ago, and those of them that would move."""

    least_seconds: int
    blocks: int = 0
    bytes: int = 0
    moving_blocks: int = 0
    moving_bytes: int = 0


@dataclass(slots=True)
class Preview:
    """`is_complete` = the whole source was looked at; else the figures are a lower bound."""

    obstacle: str = ""
    moving_blocks: int = 0
    moving_bytes: int = 0
    there_blocks: int = 0
    """Of these the target has a copy already: their source is let go without another."""
    is_complete: bool = False
    shares: tuple[Occupancy, ...] = ()
    ages: list[AgeClass] = field(default_factory=lambda: [AgeClass(least) for least in AGES_SECONDS])

    def add(self, held: HeldRun, age_seconds: float, *, is_moving: bool, there: int) -> None:
        found = next(
            one for one in reversed(self.ages) if age_seconds >= one.least_seconds or not one.least_seconds
        )
        count, size = len(held.blocks), held.size
        found.blocks += count
        found.bytes += size
        if is_moving:
            found.moving_blocks += count
            found.moving_bytes += size
            self.moving_blocks += count
            self.moving_bytes += size
            self.there_blocks += there


def policy_request(group: GroupEntry) -> CopyRequest | None:
    """What a group's policy asks for, in the form of a request."""
    policy = group.migration
    if policy is None:
        return None
    return CopyRequest("", group.name, "", policy.source, policy.target, policy.retention)


async def preview(
    session: IndexSession, wish: CopyRequest, *, is_policy: bool = False, seconds: float = PREVIEW_SECONDS
) -> Preview:
    """Bounded in time. With `is_policy` only what is above the marks of the group's policy would move."""
    registry, found = session.registry, Preview()
    group = registry.groups[wish.group]
    source, target = registry.storages.get(wish.source), registry.storages.get(wish.target)
    found.obstacle = rules.obstacle(source, target, (wish.source, wish.target))
    if source is None:
        return found
    usage = await live_usage(session.index.connection, session.group_numbers)
    found.shares = tuple(rules.occupancies(registry, group, source, usage))
    most = wish.most_bytes or None
    if is_policy:
        most = rules.demand(group.migration, found.shares) if group.migration else 0
    instances = session.instances_of(wish.group, wish.instance_id)
    walk = AgeWalk(session.index, instances, source.numbers)
    numbers = target.numbers if target is not None else ()
    now, deadline = session.index.now_ms(), time.monotonic() + seconds
    async for held in walk.runs(MOST_RUNS):
        if not held.blocks:
            continue
        age = max(0.0, (now - held.run.tick_ms) / 1000)
        is_moving = age >= wish.idle_seconds and (most is None or found.moving_bytes < most)
        there = sum(copying.covering(block, numbers) is not None for block in held.blocks)
        if wish.retention is Retention.KEEP_BOTH and not is_policy and there == len(held.blocks):
            is_moving = False
        found.add(held, age, is_moving=is_moving, there=there)
        if time.monotonic() > deadline:
            return found
    found.is_complete = walk.is_over
    return found
