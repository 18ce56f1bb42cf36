"""Random programs of engines in small groups, with rounds of reclaim in between, against a naive model.

The model knows which request used which run of blocks last. Whatever the program did: what a round takes
is older than what stays, no block goes whose descendants stay, and it takes just enough.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.types import ReclaimBudget
from tests.support.data_plane import DataPlane, instance
from tests.support.reclaims import KIB, limited, reclaim, reports

ROOM = 300
HIGH, LOW = 0.8, 0.75
RUN = 16
INSTANCES = ("model-a", "model-b")


@dataclass
class Model:
    """By instance: of each served block its parent, and of each run when it was last used."""

    parents: dict[str, dict[int, int | None]] = field(
        default_factory=lambda: {name: {} for name in INSTANCES}
    )
    runs: dict[str, dict[int, int]] = field(default_factory=lambda: {name: {} for name in INSTANCES})
    """Block -> its run."""
    used: dict[int, int] = field(default_factory=dict)
    """Run -> number of the request that used it last."""
    requests: int = 0
    run_count: int = 0

    def touch(self, name: str, keys: list[int]) -> None:
        self.requests += 1
        for key in keys:
            self.used[self.runs[name][key]] = self.requests

    def write(self, name: str, keys: list[int], new: list[int]) -> None:
        for key in new:
            at = keys.index(key)
            self.parents[name][key] = keys[at - 1] if at else None
        for begin in range(0, len(new), RUN):
            self.run_count += 1
            self.runs[name].update(dict.fromkeys(new[begin : begin + RUN], self.run_count))
        self.touch(name, keys)

    def remove(self, name: str, keys: list[int]) -> None:
        for key in keys:
            del self.parents[name][key], self.runs[name][key]

    @property
    def blocks(self) -> int:
        return sum(map(len, self.parents.values()))


class Program:
    def __init__(self, plane: DataPlane, seed: int, *, is_spread: bool) -> None:
        self.plane = plane
        self.random = random.Random(seed)
        self.model = Model()
        self.is_spread = is_spread
        self.taken = 0
        self.is_refused = False

    def prompt(self) -> list[int]:
        """Prompts share their beginnings: one of a few conversations, so far or further."""
        conversation = self.random.randrange(8)
        length = self.random.choice([1, 5, 17, 33, 60])
        branch = self.random.choice([0, 0, 1])
        common = min(length, 20)
        first = conversation * 1000 + 1
        return [
            *range(first, first + common),
            *(first + 100 + branch * 300 + n for n in range(length - common)),
        ]

    async def tick(self) -> None:
        """Requests have times of their own, as the model's have numbers; clocks differ by a ms or two."""
        now = self.plane.index.now_ms()
        while self.plane.index.now_ms() <= now + 4:
            await asyncio.sleep(0)

    async def write(self) -> None:
        name, keys = self.random.choice(INSTANCES), self.prompt()
        try:
            started = await self.plane.start(keys, name)
        except DomainError as error:
            assert error.code is Code.CAPACITY
            self.is_refused = True
            return
        await self.plane.finish(started, len(started.locations), name)
        new = [key for key in keys if key not in self.model.parents[name]]
        if len(started.locations) == len(new):
            self.model.write(name, keys, new)
        else:
            # Some wait for their deletion: of those the protocol says that they exist.
            written = await self.served(name, new)
            self.model.write(
                name, [k for k in keys if k in self.model.parents[name] or k in written], written
            )

    async def match(self) -> None:
        name, keys = self.random.choice(INSTANCES), self.prompt()
        hits = len(await self.plane.match(keys, instance_id=name))
        known = self.model.parents[name]
        expected = next((at for at, key in enumerate(keys) if key not in known), len(keys))
        assert hits == expected
        if hits:
            self.model.touch(name, keys[:hits])

    async def served(self, name: str, keys: list[int]) -> list[int]:
        statuses = await self.plane.statuses(keys, name) if keys else []
        return [key for key, status in zip(keys, statuses, strict=True) if status == "SERVING"]

    async def free(self) -> None:
        self.plane.make_due()
        await self.plane.duties()

    async def round(self) -> None:
        await self.plane.index.recency.flush()
        before = self.model.blocks
        marked = (await reclaim(self.plane)).marked_blocks
        gone: list[tuple[str, int, int]] = []
        for name in INSTANCES:
            known = list(self.model.parents[name])
            left = set(await self.served(name, known))
            lost = [key for key in known if key not in left]
            gone += [(name, key, self.model.used[self.model.runs[name][key]]) for key in lost]
            self.model.remove(name, lost)
        assert len(gone) == marked
        self.taken += marked
        if before >= HIGH * ROOM or (marked and self.is_refused):
            # What was refused is brought down from below the high mark, too.
            assert self.model.blocks == LOW * ROOM, "just enough"
        else:
            assert marked == 0
        self.is_refused = False
        if not self.is_spread:
            self.check_order(gone)

    def check_order(self, gone: list[tuple[str, int, int]]) -> None:
        for name in INSTANCES:
            parents = self.model.parents[name]
            assert all(parent is None or parent in parents for parent in parents.values()), "an orphan"
        left = [self.model.used[run] for name in INSTANCES for run in self.model.runs[name].values()]
        if gone and left:
            assert max(used for _, _, used in gone) <= min(left), "a newer block before an older one"


@pytest.mark.parametrize("seed", range(2))
async def test_random_programs(plane, shards, seed):
    plane.publish(2, limited(ROOM, HIGH), instance("model-b", 0xB, shards=shards))
    await plane.session()
    program = Program(plane, seed, is_spread=shards > 1)
    actions = [program.write] * 6 + [program.match] * 4 + [program.round] * 2 + [program.free]
    for _ in range(150):
        await program.tick()
        await program.random.choice(actions)()
    await program.round()
    assert program.taken > 100
    await program.free()
    await reclaim(plane)
    assert sum(report.freed_blocks for report in reports(plane)) == program.taken
    count = await plane.recount()
    assert (count.used, count.drift) == (program.model.blocks * KIB, {})


@pytest.mark.one_shard
@pytest.mark.parametrize("budget", [ReclaimBudget.USAGE_PROPORTIONAL, ReclaimBudget.FIXED])
async def test_within_an_instance_every_budget_keeps_to_the_order(plane, budget):
    plane.publish(2, limited(ROOM, HIGH, budget=budget), instance("model-b", 0xB))
    await plane.session()
    program = Program(plane, 5, is_spread=True)
    actions = [program.write] * 6 + [program.match] * 4 + [program.round] * 2 + [program.free]
    for _ in range(120):
        await program.tick()
        await program.random.choice(actions)()
        for parents in program.model.parents.values():
            assert all(parent is None or parent in parents for parent in parents.values()), "an orphan"
    assert program.taken > 100
