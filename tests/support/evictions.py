"""Runs of a data plane by age, and evicting them as a reclaimer does."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from kvcm_platform.index import ages, keyspace
from kvcm_platform.index.ages import Position, Run
from kvcm_platform.index.codec import pack_keys, unpack_keys
from kvcm_platform.index.evicting import Evicted, RunAccount, Victim, accounts, evict
from kvcm_platform.index.shards import shards_of
from tests.support.data_plane import DataPlane

RUN_ID = bytes.fromhex("00ff0a25c0ffee00")
"""With bytes that mean something to patterns and to text."""
NEVER_TOO_YOUNG = 1 << 47


async def coldest(plane: DataPlane, instance_id: str = "model-a") -> list[Run]:
    """All runs of an instance, the coldest of all its shards first."""
    entry = plane.mirror.current.instances[instance_id]
    found: list[Run] = []
    for shard in shards_of(entry):
        after = Position()
        while page := await ages.page(plane.index, entry, shard, after):
            found += page
            after = Position(page[-1].score, page[-1].name)
    return sorted(found, key=lambda run: (run.score, run.shard.shard, run.name))


def keys_of(plane: DataPlane, run: Run) -> tuple[int, ...]:
    """Keys of a run, from its beginning."""
    return unpack_keys(plane.client.hget(keyspace.runs(run.shard.base), run.name) or b"")


async def evict_runs(
    plane: DataPlane,
    victims: Sequence[tuple[Run, int]],
    *,
    run_id: bytes = RUN_ID,
    delay_ms: int = 0,
    written_before_ms: int = NEVER_TOO_YOUNG,
    numbers: Collection[int] | None = None,
) -> Evicted:
    """(run, most blocks) pairs, shard by shard in the order in which shards come first."""
    total = Evicted()
    for shard in dict.fromkeys(run.shard for run, _ in victims):
        here = [Victim(run, most) for run, most in victims if run.shard == shard]
        options: dict[str, Any] = {
            "delay_ms": delay_ms,
            "written_before_ms": written_before_ms,
            "numbers": numbers,
        }
        total.add(await evict(plane.index, shard, here, run_id=run_id, **options))
    return total


async def evict_all(plane: DataPlane, instance_id: str = "model-a", **options: Any) -> Evicted:
    victims = [(run, 16) for run in await coldest(plane, instance_id)]
    return await evict_runs(plane, victims, **options)


async def account(plane: DataPlane, run_id: bytes = RUN_ID) -> RunAccount:
    entries = plane.mirror.current.instances.values()
    shards = [shard for entry in entries for shard in shards_of(entry)]
    return (await accounts(plane.index, shards, [run_id]))[run_id]


def spoil(plane: DataPlane, run: Run, key: int, record: bytes) -> None:
    """Puts something else where a block's record was."""
    plane.client.hset(keyspace.blocks(run.shard.base), pack_keys([key]), record)
