"""Copies of blocks in parts and of values, and readers that look on while blocks go to and fro."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.core.types import Retention
from kvcm_platform.duties.copies import CopyRound
from kvcm_platform.duties.lease import copies_lease
from kvcm_platform.index import codec, keyspace
from kvcm_platform.transfer import TransferError
from tests.support.copies import BLOCK, Tiers, go_on, host_of, tiers
from tests.support.data_plane import found, value_instance

pytestmark = pytest.mark.asyncio
SPECS = (("full", 1024), ("state", 512))
GROUPS = (("attention", ("full",)), ("recurrent", ("state",)))


def locations(one: Tiers, instance: InstanceEntry) -> dict[int, list[codec.StoredLocation]]:
    records = one.plane.client.hgetall(keyspace.blocks(keyspace.instance(instance.number, 0)))
    return {codec.unpack_keys(key)[0]: list(codec.locations(record)) for key, record in records.items()}


async def test_parts_stay_parts(empty_valkey, tmp_path) -> None:
    """Blocks written in two Starts have two locations; each is copied as it is."""
    client = empty_valkey.client()
    async with tiers(empty_valkey.url, client, tmp_path, 1, specs=SPECS, groups=GROUPS) as one:
        one.publish(replace(one.group, storage_candidates=("fast",)))
        keys = list(range(1, 33))
        await one.write(keys, groups=["attention"] * 32)
        await one.write(keys[:16], groups=["recurrent"] * 16)
        await one.write(range(101, 117))
        before = await one.bytes_of([*keys, *range(101, 117)])
        ((_, tally),) = await one.round(one.request())
        assert (tally.copied_blocks, tally.failed_blocks) == (64, 0)
        await one.settle()
        assert await one.bytes_of([*keys, *range(101, 117)]) == before
        forms = {
            (one.target, one.is_partial) for all_of in locations(one, one.instance).values() for one in all_of
        }
        assert forms == {(0, False), (1, False), (2, False)}
        assert {loc.storage_number for all_of in locations(one, one.instance).values() for loc in all_of} == {
            2
        }
        assert not (await one.plane.recount()).has_drift
    client.close()


async def test_values_keep_their_names(empty_valkey, tmp_path) -> None:
    client = empty_valkey.client()
    async with tiers(empty_valkey.url, client, tmp_path, 1) as one:
        values = value_instance()
        one.publish(values)
        await one.refresh()
        keys = [f"key-{number}" for number in range(40)]
        sizes = [100 + number % 3 for number in range(40)]
        started = await one.plane.service.put_start(values.instance_id, keys, sizes, 30)
        contents = {key: key.encode().ljust(size, b".") for key, size in zip(keys, sizes, strict=True)}
        blocks = [(found(wire).uri, contents[key]) for key, wire in zip(keys, started.locations, strict=True)]
        assert not any(one.transfers().write_batch(blocks))
        await one.plane.service.put_finish(values.instance_id, started.session_id, len(keys))
        ((_, tally),) = await one.round(one.request())
        assert (tally.copied_blocks, tally.failed_blocks) == (40, 0)
        await one.settle()
        answers, hits = await one.plane.service.get_values(values.instance_id, keys)
        assert all(hits)
        uris = [found(wire).uri for wire in answers]
        assert {host_of(uri) for uri in uris} == {"slow"}
        assert one.transfers().read_batch(uris) == [contents[key] for key in keys]
        await one.round(one.request("b", source="slow", target="fast", retention=Retention.KEEP_BOTH))
        await one.plane.service.remove_values(values.instance_id, keys)
        _, hits = await one.plane.service.get_values(values.instance_id, keys)
        assert not any(hits)
        await one.settle()
        assert one.files("fast") == one.files("slow") == []
    client.close()


READ_WITHIN = 0.3
"""Seconds that a reader has from its question on: 0.5 from the removal, of which an answer may be 0.2 old."""


@pytest.mark.parametrize("shards", [1, 3])
async def test_a_reader_that_looks_on_sees_every_block_all_the_time(
    empty_valkey, tmp_path, shards: int
) -> None:
    """It matches in another process, with the search cache as it is in service, and reads what it got."""
    client = empty_valkey.client()
    keys = list(range(1, 401))
    async with (
        tiers(empty_valkey.url, client, tmp_path, shards) as copier,
        tiers(empty_valkey.url, client, tmp_path, shards, is_first=False, is_strict=False) as reader,
    ):
        await copier.write(keys)
        await reader.refresh()
        pattern = reader.pattern()["tp0"]
        contents = {key: pattern.block(key) for key in keys}
        over, seen, passes = asyncio.Event(), set[str](), 0
        transfers = reader.transfers()

        async def look_on() -> None:
            nonlocal passes
            while not over.is_set():
                for query in (1, 2):
                    asked_at = time.monotonic()
                    answers = await reader.plane.match(keys, query)
                    assert len(answers) == len(keys), "a prefix ended early"
                    uris = [one.uri for one in answers]
                    seen.update(map(host_of, uris))
                    found = await asyncio.to_thread(transfers.read_batch, uris)
                    if time.monotonic() - asked_at > READ_WITHIN:
                        continue
                    for key, data in zip(keys, found, strict=True):
                        assert not isinstance(data, TransferError), data
                        assert data == contents[key]
                passes += 1

        async def go_to_and_fro() -> None:
            for number in range(6):
                way = ("fast", "slow") if number % 2 == 0 else ("slow", "fast")
                wish = copier.request(
                    str(number), source=way[0], target=way[1], max_bytes_per_second=300 * BLOCK
                )
                session = await copier.session()
                async with copies_lease(session) as owner:
                    ((_, tally),) = await CopyRound(session, owner, 20, go_on).run([wish])
                assert tally.copied_blocks + tally.there_blocks == len(keys)
                await copier.plane.duties()
            over.set()

        watching = asyncio.ensure_future(look_on())
        try:
            await go_to_and_fro()
        finally:
            over.set()
            await watching
        assert seen == {"fast", "slow"}
        assert passes > 5
        await copier.settle()
        assert not (await copier.plane.recount()).has_drift
    client.close()
