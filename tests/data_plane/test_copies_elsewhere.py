"""Copies from and to storages without folders: a real Mooncake store, and memory of real agents."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kvcm_platform.core.migration import Direction
from kvcm_platform.duties.copy_waves import Stop
from kvcm_platform.index import keyspace
from kvcm_platform.index.pool_recount import recount_pools
from kvcm_platform.index.shards import shards_of
from kvcm_platform.storage.mooncake_clients import CLIENTS
from kvcm_platform.transfer.pool_agents import Agent
from tests.support.copies import BLOCK, SLOW, Tiers, tiers
from tests.support.data_plane import storage
from tests.support.mempool import AgentHost, RunningAgent, agent_host, pool_storage
from tests.support.mooncake import MooncakeMaster, running_mooncake
from tests.support.pools import figures
from tests.support.valkey import ValkeyServer

pytestmark = pytest.mark.asyncio
POOL = 7
KEYS = list(range(1, 601))
MANY = list(range(1, 2001))


@pytest.fixture
def master(tmp_path: Path) -> Iterator[MooncakeMaster]:
    with running_mooncake(tmp_path) as running:
        yield running
    CLIENTS.close()


@pytest.fixture
def host() -> Iterator[AgentHost]:
    with agent_host() as host:
        yield host


@asynccontextmanager
async def opened(valkey: ValkeyServer, root: Path, **settings: Any) -> AsyncIterator[Tiers]:
    client = valkey.client()
    async with tiers(valkey.url, client, root, settings.pop("shards", 1), **settings) as built:
        yield built
    client.close()


async def has_no_drift(one: Tiers) -> bool:
    session = await one.plane.session()
    pools = await recount_pools(one.index, list(one.entries.values()), session.all_instances, repair=False)
    return not (await one.plane.recount()).has_drift and not any(count.has_drift for count in pools)


def open_sessions(one: Tiers) -> int:
    """What is kept of open sessions; 0 = none is open."""
    bases = [shard.base for shard in shards_of(one.instance)]
    return sum(one.plane.client.hlen(keyspace.sessions(base)) for base in bases)


async def until_deleted(one: Tiers) -> None:
    """What was read from a store lies under a lease for a second, so its deletion may need a few tries."""
    for _ in range(20):
        await one.settle()
        if not one.plane.client.zcard(keyspace.pending_due(keyspace.instance(one.instance.number, 0))):
            return
    raise AssertionError("deletions do not come to an end")


@pytest.mark.parametrize("kind", ["pool", "nfs"])
async def test_cold_blocks_go_to_a_mooncake_store_and_used_ones_come_back(
    empty_valkey: ValkeyServer, tmp_path: Path, master: MooncakeMaster, host: AgentHost, kind: str
) -> None:
    """Every byte of every part is what an engine wrote, on either side."""
    fast = storage(tmp_path / "fast", name="fast", number=POOL)
    if kind == "pool":
        fast = pool_storage(host.start(), name="fast", number=POOL)
    specs = (("tp0", BLOCK), ("tp1", 3000))
    size = sum(each for _, each in specs)
    slow = master.storage("slow", SLOW)
    async with opened(empty_valkey, tmp_path, fast=fast, slow=slow, specs=specs) as one:
        one.set_policy(trigger_ratio=0.5, low_ratio=0.1, promote_after_hits=3, capacity=1000 * size)
        for begin in range(0, len(KEYS), 100):
            await one.write(KEYS[begin : begin + 100])
        before = await one.bytes_of(KEYS)
        ((what, tally),) = [done for done in await one.round() if done[0].direction is Direction.DEMOTION]
        assert (tally.stop, tally.failed_blocks, tally.reasons) == (Stop.DONE, 0, {}), what
        assert tally.copied_blocks >= 500
        await one.settle()
        assert await one.read(KEYS) == {"slow": tally.copied_blocks, "fast": len(KEYS) - tally.copied_blocks}
        assert await one.bytes_of(KEYS) == before
        names = {name for name in master.object_keys() if name.startswith("model-a/")}
        assert len(names) == 2 * tally.copied_blocks
        assert await has_no_drift(one)

        places = await one.places(KEYS)
        used = [key for key in KEYS if places[key] == "slow"][:64]
        await one.use(used, 4)
        assert (await one.copied())["promotion"] >= len(used)
        back = await one.places(KEYS)
        assert {back[key] for key in used} == {"fast"}
        one.set_policy(trigger_ratio=0.9, low_ratio=0.8, capacity=1000 * size)
        ((_, rest),) = await one.round(one.request(source="slow", target="fast"))
        assert (rest.failed_blocks, rest.reasons) == (0, {})
        await until_deleted(one)
        assert await one.read(KEYS) == {"fast": len(KEYS)}
        assert await one.bytes_of(KEYS) == before
        assert not {name for name in master.object_keys() if name.startswith("model-a/")}
        assert await has_no_drift(one)


@pytest.mark.parametrize("memory", ["returns", "is_lost"])
async def test_a_pool_agent_that_is_killed_in_the_middle_of_a_copy(
    empty_valkey: ValkeyServer,
    tmp_path: Path,
    host: AgentHost,
    monkeypatch: pytest.MonkeyPatch,
    memory: str,
) -> None:
    """It dies with bytes in its memory that are not committed, and batches before that are."""
    agent = host.start()
    slow = pool_storage(agent, name="slow", number=POOL)
    fast = storage(tmp_path / "fast", name="fast", number=1)
    async with opened(empty_valkey, tmp_path, fast=fast, slow=slow) as one:
        for begin in range(0, len(MANY), 250):
            await one.write(MANY[begin : begin + 250])
        with monkeypatch.context() as patched:
            killed_at_commit(patched, agent, number=4)
            ((_, tally),) = await one.round(one.request())
        assert (tally.stop, tally.failed_blocks) == (Stop.STORAGE, 0)
        assert tally.detail.startswith("slow: ")
        assert 0 < tally.copied_blocks < len(MANY)
        assert open_sessions(one) == 0
        places = await one.places(MANY)
        stayed = [key for key, place in places.items() if place == "fast"]
        assert len(places) == len(MANY), "each is served from one of them"
        assert len(stayed) == len(MANY) - tally.copied_blocks
        assert await one.read(stayed) == {"fast": len(stayed)}

        if memory == "returns":
            again = host.restart(agent)
            assert again.segment_id == agent.segment_id
            assert await one.read(MANY) == {"fast": len(stayed), "slow": tally.copied_blocks}
        else:
            other = pool_storage(host.start("b"), name="slow", number=POOL + 10)
            one.entries["slow"] = replace(
                other, number=POOL, lost_numbers=tuple(segment.number for segment in slow.segments)
            )
            one.publish(one.entries["slow"])
            await one.refresh()
            assert await one.read(MANY) == {"fast": len(stayed)}, "what is lost is a miss"
        await one.settle()
        ((_, rest),) = await one.round(one.request("b"))
        assert (rest.stop, rest.copied_blocks, rest.failed_blocks) == (Stop.DONE, len(stayed), 0)
        await one.settle()
        is_there = len(MANY) if memory == "returns" else len(stayed)
        assert await one.read(MANY) == {"slow": is_there}
        assert one.files("fast") == []
        assert open_sessions(one) == 0
        assert await has_no_drift(one)


async def test_agent_and_copier_die_together(
    empty_valkey: ValkeyServer, tmp_path: Path, host: AgentHost
) -> None:
    """What nobody finishes expires, and its memory comes free when the node is back."""
    agent = host.start()
    slow = pool_storage(agent, name="slow", number=POOL)
    fast = storage(tmp_path / "fast", name="fast", number=1)
    async with opened(empty_valkey, tmp_path, fast=fast, slow=slow) as one:
        keys = MANY[:64]
        await one.write(keys)
        copy = await one.open_copy(keys, timeout_ms=1000)
        targets = [(place[1], bytes(BLOCK)) for places in copy.places[:32] for place in places]
        assert not any(one.transfers().write_batch(targets))
        agent.kill()
        assert open_sessions(one)
        await until_swept(one)
        assert await one.read(keys) == {"fast": 64}
        host.restart(agent)
        await one.settle()
        assert await has_no_drift(one)
        assert figures(one.plane.client, slow.segments[0].number).ranges == 0
        ((_, tally),) = await one.round(one.request())
        assert tally.copied_blocks == 64
        assert await one.read(keys) == {"slow": 64}


async def until_swept(one: Tiers) -> None:
    deadline = time.monotonic() + 30
    while open_sessions(one):
        assert time.monotonic() < deadline, "the session is not swept"
        await one.plane.duties()
        await asyncio.sleep(0.05)


def killed_at_commit(patched: pytest.MonkeyPatch, agent: RunningAgent, number: int) -> None:
    """The agent dies before it hears of the end of that many batches."""
    commit, calls = Agent.commit, count(1)

    def dying(self: Agent, *arguments: Any) -> Any:
        if next(calls) == number:
            agent.kill()
        return commit(self, *arguments)

    patched.setattr(Agent, "commit", dying)
