"""Why blocks left: every way a block goes is told, to those who ask by key and by time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.index import gone, keyspace
from kvcm_platform.index.gone import Gone, gone_of, gone_recent
from kvcm_platform.index.shards import shards_of
from kvcm_platform.index.storage_checks import request_check
from tests.support.data_plane import DataPlane, group, storage
from tests.support.evictions import RUN_ID, evict_all

KEYS = list(range(1, 31))


def entry_of(plane: DataPlane):
    return plane.mirror.current.instances["model-a"]


def reasons(plane: DataPlane, key: int) -> list[str]:
    return [one.reason for one in gone_of(plane.client, entry_of(plane), key, 100)]


def clock_ms(plane: DataPlane) -> int:
    seconds, micros = plane.client.time()
    return seconds * 1000 + micros // 1000


async def test_each_way_to_go_has_its_reason(plane):
    before = clock_ms(plane)
    await plane.write(KEYS[:20])
    assert [reasons(plane, key) for key in KEYS[:20]] == [[]] * 20
    await plane.service.remove_cache("model-a", Blocks([1, 2], ()), None)
    await plane.service.trim_cache("model-a", 3, 0, 1)
    assert reasons(plane, 3) == [], "a trim that takes nothing"
    await evict_all(plane)
    for key in (3, 20):
        (one,) = gone_of(plane.client, entry_of(plane), key, 10)
        assert (one.reason, one.run_id, one.key) == (f"reclaim:{RUN_ID.hex()}", RUN_ID.hex(), key)
        assert before <= one.at_ms <= clock_ms(plane) + 1
    assert reasons(plane, 1) == ["remove"]
    await plane.write(KEYS[20:])
    await plane.service.trim_cache("model-a", 1, 0, 0)
    (reason,) = reasons(plane, 25)
    assert reason.startswith("trim:") and len(reason) == len("trim:") + 16
    assert reasons(plane, 4) == [f"reclaim:{RUN_ID.hex()}"]


async def test_failed_and_expired_writes(plane):
    started = await plane.start(KEYS[:4])
    await plane.finish(started, [True, False, True, False])
    assert [reasons(plane, key) for key in KEYS[:4]] == [[], ["failed"], [], ["failed"]]
    await plane.start(KEYS[4:8], timeout=1)
    deadline = time.monotonic() + 20
    while not reasons(plane, KEYS[4]):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)
        await plane.duties()
    assert [reasons(plane, key) for key in KEYS[4:8]] == [["expired"]] * 4


async def test_blocks_of_a_storage_that_is_to_be_empty_or_lost_its_objects(plane, tmp_path):
    await plane.write(KEYS[:4])
    request_check(plane.client, [1])
    plane.client.delete(keyspace.STORAGE_CLEARED_AT)
    await plane.duties()
    assert [reasons(plane, key) for key in KEYS[:4]] == [["lost"]] * 4, "nobody wrote their bytes"
    second = storage(tmp_path / "two", name="nfs_02", number=2)
    plane.publish(3, second, group(storage_candidates=("nfs_02",)))
    await plane.mirror.refresh()
    await plane.write(KEYS[4:8])
    plane.publish(4, replace(second, is_leaving=True))
    await plane.duties()
    assert [reasons(plane, key) for key in KEYS[4:8]] == [["cleared:2"]] * 4


async def test_the_newest_reason_comes_first_and_no_more_than_asked_for(plane):
    for _ in range(3):
        await plane.write([7])
        await plane.service.remove_cache("model-a", Blocks([7], ()), None)
        plane.make_due()
        await plane.duties()
    await plane.write([7])
    await evict_all(plane)
    assert reasons(plane, 7) == [f"reclaim:{RUN_ID.hex()}", "remove", "remove", "remove"]
    found = gone_of(plane.client, entry_of(plane), 7, 2)
    assert [one.reason for one in found] == [f"reclaim:{RUN_ID.hex()}", "remove"]
    assert found[0].at_ms >= found[1].at_ms


async def test_a_key_is_found_only_where_it_is(plane):
    """Keys lie packed one behind the other: parts of two neighbours are nobody's key."""
    low, high = 0x0102030405060708, 0x1112131415161718
    await plane.write([low, high])
    await plane.service.remove_cache("model-a", Blocks([low, high], ()), None)
    for shift in range(1, 8):
        packed = low.to_bytes(8) + high.to_bytes(8)
        assert reasons(plane, int.from_bytes(packed[shift : shift + 8])) == []
    assert reasons(plane, low) == reasons(plane, high) == ["remove"]


async def test_more_pages_than_one(plane):
    many = list(range(1, 301))
    await plane.write(many)
    for key in many:
        await plane.service.remove_cache("model-a", Blocks([key], ()), None)
    assert reasons(plane, 1) == reasons(plane, 300) == ["remove"]
    recent = gone_recent(plane.client, entry_of(plane), 200)
    assert len(recent) == 200
    assert [one.at_ms for one in recent] == sorted((one.at_ms for one in recent), reverse=True)
    assert {one.key for one in recent} >= set(many[-50:])
    assert len(gone_recent(plane.client, entry_of(plane), 10_000)) == 300
    assert gone_recent(plane.client, entry_of(plane), 0) == []
    assert gone_of(plane.client, entry_of(plane), 1, 10, seconds=-1) == [], "no time to look"


async def test_what_is_old_is_forgotten_once_a_minute(plane):
    await plane.write(KEYS)
    await plane.service.remove_cache("model-a", Blocks(KEYS, ()), None)
    shards = shards_of(entry_of(plane))
    await asyncio.sleep(0.01)
    plane.client.delete(keyspace.GONE_TRIMMED)
    assert await gone.forget_old(plane.index, shards, 60_000)
    assert reasons(plane, 1) == ["remove"]
    assert not await gone.forget_old(plane.index, shards, 0), "a minute has not passed"
    plane.client.delete(keyspace.GONE_TRIMMED)
    # Whole parts of a stream go; entries beside younger ones may stay a while.
    for key in range(1000, 2000):
        await plane.index.remove(entry_of(plane), [key], 0)
    await gone.forget_old(plane.index, shards, 0)
    assert len(gone_recent(plane.client, entry_of(plane), 500)) <= 100 * len(shards)


async def test_gone_values_tell_their_run():
    assert Gone(1, "reclaim:00ff", 7).run_id == "00ff"
    assert Gone(1, gone.trimmed("00ff"), 7).run_id == Gone(1, gone.REMOVED, 7).run_id == ""
    assert gone.cleared(12) == "cleared:12"
