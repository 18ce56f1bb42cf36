"""Random programs against a naive model: matches, masks and usage must agree after every step."""

from __future__ import annotations

import random

import pytest

from kvcm_platform.core.errors import DomainError
from kvcm_platform.core.registry import Quota
from kvcm_platform.core.types import QueryType
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.index import keyspace
from tests.support.data_plane import DataPlane, data_plane, group
from tests.support.eventually import eventually_async

SIZE = 1024


class Model:
    """Blocks by key: 'writing' with their session, 'serving', or 'deleting' until freed."""

    def __init__(self, quota_blocks: int) -> None:
        self.quota = quota_blocks
        self.blocks: dict[int, tuple[str, object]] = {}
        self.pending = 0  # failed writes: no block any more, still counted until freed

    @property
    def used(self) -> int:
        return len(self.blocks) + self.pending

    def serving(self, key: int) -> bool:
        return self.blocks.get(key, ("", None))[0] == "serving"

    def prefix(self, keys: list[int], offset: int) -> int:
        count = 0
        for key in keys[offset:]:
            if not self.serving(key):
                break
            count += 1
        return count


NEVER = 3600
"""Seconds after which a session would expire: longer than any program takes."""


class Program:
    def __init__(self, plane: DataPlane, reader: DataPlane, seed: int, quota_blocks: int) -> None:
        self.plane = plane
        self.reader = reader
        self.random = random.Random(seed)
        self.model = Model(quota_blocks)
        self.open: list[tuple[object, list[int]]] = []

    def chain(self) -> list[int]:
        """A prompt: one of a few trees of prefixes, sometimes with a repeated key."""
        root = self.random.randrange(4)
        length = self.random.choice([1, 3, 17, 40, 600])
        keys = [root * 10_000 + depth for depth in range(1, length + 1)]
        if self.random.random() < 0.2:
            keys.append(keys[0])
        return keys

    async def start(self) -> None:
        keys = self.chain()
        missing = [key for key in dict.fromkeys(keys) if key not in self.model.blocks]
        if self.model.used + len(missing) > self.model.quota and missing:
            with pytest.raises(DomainError):
                await self.plane.start(keys)
            return
        started = await self.plane.start(keys, timeout=NEVER)
        flags = started.mask if isinstance(started.mask, list) else None
        written = [k for i, k in enumerate(keys) if (not flags[i] if flags else i >= started.mask)]
        assert written == missing
        for key in missing:
            self.model.blocks[key] = ("writing", started.session_id)
        self.open.append((started, missing))

    async def finish(self) -> None:
        if not self.open:
            return
        started, keys = self.open.pop(self.random.randrange(len(self.open)))
        if self.random.random() < 0.5:
            mask = self.random.randint(0, len(keys))
            success = [index < mask for index in range(len(keys))]
        else:
            mask = success = [self.random.random() < 0.7 for _ in keys]
        await self.plane.finish(started, mask)
        for key, is_written in zip(keys, success, strict=True):
            if self.model.blocks.get(key) == ("writing", started.session_id):
                if is_written:
                    self.model.blocks[key] = ("serving", None)
                else:
                    del self.model.blocks[key]
                    self.model.pending += 1

    async def remove(self) -> None:
        keys = self.chain()[: self.random.choice([1, 5, 700])]
        await self.plane.service.remove_cache("model-a", Blocks(keys, ()), None)
        for key in keys:
            if key in self.model.blocks:
                self.model.blocks[key] = ("deleting", None)

    async def trim(self) -> None:
        if self.random.random() < 0.2:
            await self.plane.service.trim_cache("model-a", 1, 0, 0)
            # One that takes half a second, on a busy machine, goes on after its answer.
            await eventually_async(lambda: not self.plane.client.hlen(keyspace.TRIMS), seconds=60)
            self.model.blocks = dict.fromkeys(self.model.blocks, ("deleting", None))

    async def free(self) -> None:
        self.plane.make_due()
        report = await self.plane.duties()
        assert (report.failures, report.deletions.postponed) == (0, 0)
        self.model.blocks = {k: state for k, state in self.model.blocks.items() if state[0] != "deleting"}
        self.model.pending = 0

    async def match(self) -> None:
        keys = self.chain()
        offset = self.random.choice([0, 0, 1, len(keys) // 2])
        for plane in (self.plane, self.reader):
            assert len(await plane.match(keys, mask=offset)) == self.model.prefix(keys, offset)
        batch = await self.plane.match(keys, QueryType.BATCH_GET)
        assert [bool(location.uri) for location in batch] == [self.model.serving(key) for key in keys]

    async def step(self) -> None:
        actions = (
            [self.start] * 4 + [self.finish] * 4 + [self.match] * 3 + [self.remove, self.trim, self.free]
        )
        await self.random.choice(actions)()

    async def check(self) -> None:
        count = await self.plane.recount()
        assert not count.has_drift
        assert (count.used, count.reserved) == (self.model.used * SIZE, 0)


async def run(plane: DataPlane, reader: DataPlane, seed: int, steps: int, quota_blocks: int) -> None:
    plane.publish(2, group(quota=Quota(quota_blocks * SIZE)))
    await plane.mirror.refresh()
    await reader.mirror.refresh()
    program = Program(plane, reader, seed, quota_blocks)
    for number in range(steps):
        await program.step()
        if number % 10 == 9:
            await program.check()
    await program.check()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("quota_blocks", [900, 1 << 40])
async def test_random_programs(plane, empty_valkey, seed, quota_blocks):
    """The second process only reads, through a search cache far too small for the index."""
    async with data_plane(empty_valkey.url, plane.client, cache_bytes=100_000) as reader:
        await run(plane, reader, seed, 120, quota_blocks)


@pytest.mark.long
@pytest.mark.timeout(1500)
async def test_long_random_program(plane, empty_valkey):
    async with data_plane(empty_valkey.url, plane.client, cache_bytes=100_000) as reader:
        await run(plane, reader, 4711, 8_000, 2000)
