"""Blocks on a real Mooncake store: from Start to an object that is gone, and objects that vanish."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from kvcm_platform.core.uris import object_name, parse_uri
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.index.storage_checks import check_states, request_check
from kvcm_platform.storage.mooncake_clients import CLIENTS
from kvcm_platform.transfer import BlockPattern, TransferError, Transfers
from tests.support.data_plane import DataPlane, data_plane, found, group, instance
from tests.support.eventually import eventually
from tests.support.mooncake import MooncakeMaster, running_mooncake
from tests.support.valkey import ValkeyServer

KEYS = list(range(1, 13))
SIZE = 4096
SPECS = [("tp0", SIZE), ("tp1", SIZE)]


@pytest.fixture
def master(tmp_path: Path) -> Iterator[MooncakeMaster]:
    with running_mooncake(tmp_path) as running:
        yield running
    CLIENTS.close()


@pytest_asyncio.fixture
async def moon(empty_valkey: ValkeyServer, master: MooncakeMaster) -> AsyncIterator[DataPlane]:
    entries = (master.storage("moon"), group(storage_candidates=("moon",)), instance(specs=SPECS))
    client = empty_valkey.client()
    async with data_plane(empty_valkey.url, client, *entries) as built:
        yield built
    client.close()


@pytest.fixture
def transfers(master: MooncakeMaster) -> Iterator[Transfers]:
    with Transfers.from_entries([master.storage("moon")]) as made:
        yield made


async def write(plane: DataPlane, transfers: Transfers, keys: list[int]) -> list[tuple[str, bytes]]:
    """Writes blocks as an engine does; URI and bytes of each part."""
    started = await plane.start(keys)
    parts = [(name, uri) for wire in started.locations for name, uri in found(wire).specs]
    patterns = {name: BlockPattern("model-a", name, SIZE) for name, _ in SPECS}
    owners = [key for key in keys for _ in SPECS]
    blocks = [(uri, patterns[name].block(key)) for key, (name, uri) in zip(owners, parts, strict=True)]
    assert transfers.write_batch(blocks) == [None] * len(blocks)
    await plane.finish(started, len(keys))
    return blocks


async def test_from_start_to_an_object_that_is_gone(
    moon: DataPlane, master: MooncakeMaster, transfers: Transfers
) -> None:
    written = await write(moon, transfers, KEYS)
    hits = await moon.match(KEYS)
    assert [uri for hit in hits for _, uri in hit.specs] == [uri for uri, _ in written]
    assert transfers.read_batch([uri for uri, _ in written]) == [data for _, data in written]
    names = {object_name(parse_uri(uri)) for uri, _ in written}
    assert names <= master.object_keys()

    await moon.service.remove_cache("model-a", Blocks(KEYS[6:], ()), None)
    assert len(await moon.match(KEYS)) == 6
    # What was just read is under a lease; it is deleted within the run or with the next try.
    deleted = 0
    while deleted < 6:
        moon.make_due()
        report = await moon.duties()
        deleted += report.deletions.deleted
        assert all("lease" in reason for reason in report.deletions.reasons)
    left = {object_name(parse_uri(uri)) for uri, _ in written[:12]}
    assert names & master.object_keys() == left
    assert (await moon.recount()).drift == {}


async def test_blocks_of_a_master_that_lost_them_are_misses(
    moon: DataPlane, master: MooncakeMaster, transfers: Transfers
) -> None:
    written = await write(moon, transfers, KEYS)
    master.restart()
    uris = [uri for uri, _ in written]
    eventually(lambda: all(isinstance(one, TransferError) for one in transfers.read_batch(uris)), seconds=20)
    assert len(await moon.match(KEYS)) == len(KEYS), "nobody told the index yet"
    request_check(moon.client, [1])
    for _ in range(20):
        await moon.duties()
        if not check_states(moon.client, [1])[1].is_running:
            break
    assert check_states(moon.client, [1])[1].lost == len(KEYS)
    assert await moon.match(KEYS) == []
    moon.make_due()
    await moon.duties()
    eventually(
        lambda: all("does not answer" not in one.reason for one in _errors(transfers, uris)), seconds=20
    )
    again = await write(moon, transfers, KEYS)
    assert transfers.read_batch([uri for uri, _ in again]) == [data for _, data in again]
    moon.make_due()
    await moon.duties()
    assert (await moon.recount()).drift == {}


def _errors(transfers: Transfers, uris: list[str]) -> list[TransferError]:
    """Why each object cannot be read, all of which are gone: the engine's client may still be connecting."""
    found = transfers.read_batch(uris)
    assert all(isinstance(one, TransferError) for one in found)
    return [one for one in found if isinstance(one, TransferError)]
