from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import redis

from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.transfer import BlockPattern, Transfers
from tests.factories.objects import make_group, make_instance, make_storage
from tests.support.copies import host_of
from tests.support.data_plane import data_plane, found, found_all

BLOCK = 2048
Write = Callable[[Sequence[int]], None]
Read = Callable[[Sequence[int]], Counter[str]]


@pytest.fixture
def model(index: redis.Redis, tmp_path: Path) -> InstanceEntry:
    """Storages `nfs_a` and `nfs_b`, group `chat` on the first, one instance."""
    make_storage(tmp_path, "nfs_a", capacity_bytes=100 * BLOCK)
    make_storage(tmp_path, "nfs_b")
    make_group()
    return make_instance()


@pytest.fixture
def write(index: redis.Redis, model: InstanceEntry, settings) -> Write:
    """An engine's write of whole blocks, with bytes."""

    async def run(keys: Sequence[int]) -> None:
        async with data_plane(settings.KVCM_REDIS_URL, index) as plane:
            started = await plane.service.start_write(model.instance_id, Blocks(keys, ()), (), 30)
            patterns = {
                s.name: BlockPattern(model.instance_id, s.name, s.size) for s in model.location_spec_infos
            }
            blocks = [
                (uri, patterns[name].block(key))
                for key, wire in zip(keys, started.locations, strict=True)
                for name, uri in found(wire).specs
            ]
            transfers = Transfers.from_entries(plane.mirror.current.storages.values())
            assert not any(transfers.write_batch(blocks))
            await plane.service.finish_write(model.instance_id, started.session_id, len(keys))
            await plane.index.pusher.flush()

    return lambda keys: asyncio.run(run(keys))


@pytest.fixture
def read(index: redis.Redis, model: InstanceEntry, settings) -> Read:
    """Storage -> blocks that are served from it; their bytes are compared."""

    async def run(keys: Sequence[int]) -> Counter[str]:
        async with data_plane(settings.KVCM_REDIS_URL, index) as plane:
            wires = await plane.service.get_cache_location(
                model.instance_id, 1, Blocks(keys, ()), None, 0, ()
            )
            answers = found_all(wires)
            transfers = Transfers.from_entries(plane.mirror.current.storages.values())
            for key, one in zip(keys, answers, strict=True):
                for name, uri in one.specs:
                    size = next(s.size for s in model.location_spec_infos if s.name == name)
                    assert transfers.read(uri) == BlockPattern(model.instance_id, name, size).block(key)
            return Counter(host_of(one.uri) for one in answers)

    return lambda keys: asyncio.run(run(keys))
