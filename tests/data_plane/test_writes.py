"""Write sessions: WIRE.md 3.5 with section A, DESIGN 4.4."""

from __future__ import annotations

import asyncio

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.registry import MetaIndexerSettings, Quota
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.uris import parse_uri
from kvcm_platform.core.use_cases import Blocks, Limits
from kvcm_platform.index import keyspace, waking
from tests.support.data_plane import DataPlane, data_plane, found, group, instance, storage

A, B, C, D = KEYS = [1, 2, 3, 4]
GONE = "write_session_id has been deleted"


async def refused(call, code: Code, field: str | None = None) -> DomainError:
    with pytest.raises(DomainError) as caught:
        await call
    assert caught.value.code is code
    if field is not None:
        assert caught.value.field == field
    return caught.value


async def test_what_start_returned_is_what_a_match_gives_after_finish(plane):
    started = await plane.start(KEYS)
    assert (started.mask, len(started.locations)) == (0, 4)
    assert await plane.match(KEYS) == []  # writing is no hit
    await plane.finish(started, 4)
    assert await plane.match(KEYS) == [found(wire) for wire in started.locations]


async def test_session_id_form(plane):
    started = await plane.start(KEYS)
    assert len(started.session_id) == 32
    assert set(started.session_id) <= set("abcdefghijklmnopqrstuvwxyz0123456789")


@pytest.mark.parametrize(
    ("known", "mask", "written"),
    [
        ([], 0, [A, B, C, D]),
        ([A, B], 2, [C, D]),
        ([A, B, C, D], 4, []),
        ([B], [False, True, False, False], [A, C, D]),
        ([A, C], [True, False, True, False], [B, D]),
    ],
)
async def test_answer_mask(plane, known, mask, written):
    if known:
        await plane.write(known)
    started = await plane.start(KEYS)
    assert started.mask == mask
    names = [parse_uri(found(wire).uri) for wire in started.locations]
    assert len(names) == len(written)
    await plane.finish(started, len(written))
    assert len(await plane.match(KEYS)) == 4


async def test_writing_blocks_exist_for_a_second_engine(plane):
    first = await plane.start(KEYS[:2])
    second = await plane.start(KEYS)
    assert (second.mask, len(second.locations)) == (2, 2)
    await plane.finish(first, 2)
    await plane.finish(second, 2)
    assert len(await plane.match(KEYS)) == 4


async def test_duplicate_keys_are_written_once(plane):
    started = await plane.start([A, B, A, C, B])
    assert started.mask == [False, False, True, False, True]
    assert len(started.locations) == 3
    await plane.finish(started, [True] * 3)  # the length of a Finish mask is the number of locations
    assert len(await plane.match([A, B, C])) == 3


@pytest.mark.parametrize(
    ("mask", "hits"),
    [(4, KEYS), (2, [A, B]), (0, []), ([True, False, True, True], [A, C, D]), ([False] * 4, [])],
)
async def test_finish_masks(plane, mask, hits):
    started = await plane.start(KEYS)
    await plane.finish(started, mask)
    served = [location.uri != "" for location in await plane.match(KEYS, query=1)]
    assert [key for key, is_served in zip(KEYS, served, strict=True) if is_served] == hits
    # Failures are writable again at once.
    again = await plane.start(KEYS)
    assert len(again.locations) == 4 - len(hits)


@pytest.mark.parametrize("mask", [5, [True] * 3, [True] * 5, []])
async def test_a_bad_finish_mask_leaves_the_session_open(plane, mask):
    started = await plane.start(KEYS)
    await refused(plane.finish(started, mask), Code.INVALID_ARGUMENT, "success_blocks")
    await plane.finish(started, 4)
    assert len(await plane.match(KEYS)) == 4


async def test_finish_needs_its_mask_and_no_negative_offset(plane):
    started = await plane.start(KEYS)
    await refused(plane.finish(started, None), Code.INVALID_ARGUMENT, "success_blocks")
    await refused(plane.finish(started, -1), Code.INVALID_ARGUMENT, "success_blocks.offset")
    await plane.finish(started, 4)


async def test_a_session_ends_once(plane):
    started = await plane.start(KEYS)
    results = await asyncio.gather(*(plane.finish(started, 4) for _ in range(5)), return_exceptions=True)
    errors = [error for error in results if error is not None]
    assert len(errors) == 4
    assert {(error.code, error.message) for error in errors} == {(Code.INTERNAL, GONE)}


async def test_a_session_belongs_to_its_instance(plane):
    plane.publish(2, instance("other", 0xDEF))
    await plane.mirror.refresh()
    started = await plane.start(KEYS)
    error = await refused(plane.finish(started, 4, "other"), Code.INTERNAL)
    assert error.message == GONE
    await plane.finish(started, 4)


async def test_nothing_to_write_still_opens_a_session(plane):
    await plane.write(KEYS)
    started = await plane.start(KEYS)
    assert (started.mask, started.locations) == (4, [])
    await plane.finish(started, [])  # what the vLLM connector's {"bool_masks": {"offset": 0}} becomes
    await refused(plane.finish(started, []), Code.INTERNAL)


async def test_an_expired_session_fails_its_blocks_and_frees_its_keys(plane):
    started = await plane.start(KEYS, timeout=1)
    base = keyspace.instance(0xABC, 0)
    deadline = plane.client.zscore(keyspace.session_deadlines(base), started.session_id)
    await wait_until(plane, deadline)
    error = await refused(plane.finish(started, 4), Code.INTERNAL)
    assert error.message == GONE
    assert (await plane.duties()).sessions == 1
    assert await plane.statuses(KEYS) == ["NOT_FOUND"] * 4
    assert len((await plane.start(KEYS)).locations) == 4


async def wait_until(plane: DataPlane, at_ms: float) -> None:
    """Waits for the server's clock."""
    seconds, micros = plane.client.time()
    await asyncio.sleep(max(0.0, at_ms / 1000 - seconds - micros / 1e6) + 0.005)


@pytest.mark.parametrize(
    ("asked", "seconds"), [(0, 30), (-5, 30), (1, 1), (45, 45), (3600, 3600), (10**9, 3600)]
)
async def test_write_timeout_is_clamped(plane, asked, seconds):
    before = plane.index.now_ms()
    started = await plane.start(KEYS, timeout=asked)
    deadline = plane.client.zscore(
        keyspace.session_deadlines(keyspace.instance(0xABC, 0)), started.session_id
    )
    assert before + seconds * 1000 <= deadline <= plane.index.now_ms() + seconds * 1000


@pytest.mark.one_shard
async def test_nothing_to_write_has_a_short_timeout(plane):
    await plane.write(KEYS)
    before = plane.index.now_ms()
    started = await plane.start(KEYS, timeout=0)
    deadline = plane.client.zscore(
        keyspace.session_deadlines(keyspace.instance(0xABC, 0)), started.session_id
    )
    assert before + 10_000 <= deadline <= plane.index.now_ms() + 10_000


async def test_group_quota_is_exact_and_never_exceeded(plane):
    plane.publish(2, group(quota=Quota(4 * 1024)))
    await plane.mirror.refresh()
    first = await plane.start(KEYS[:3])
    await refused(plane.start([7, 8]), Code.CAPACITY)  # all or nothing
    second = await plane.start([7])
    await refused(plane.start([8]), Code.CAPACITY)
    await plane.finish(first, 0)
    await plane.finish(second, 1)
    await plane.duties()
    assert len((await plane.start([8, 9, 10])).locations) == 3


async def test_a_refused_start_wakes_control(plane, monkeypatch):
    monkeypatch.setattr(waking, "REFUSED_SECONDS", 60.0)
    plane.publish(2, group(quota=Quota(1024)))
    await plane.mirror.refresh()
    await plane.start([1])
    assert plane.client.xlen(keyspace.WAKE) == 0
    for key in (2, 3, 4):
        await refused(plane.start([key]), Code.CAPACITY)
    entries = [fields for _, fields in plane.client.xrange(keyspace.WAKE)]
    assert entries == [{b"reason": b"refused", b"group": b"default"}]


async def test_quota_zero_blocks_all_writes(plane):
    plane.publish(2, group(quota=Quota(0)))
    await plane.mirror.refresh()
    await refused(plane.start([1]), Code.CAPACITY)


async def test_a_full_type_falls_through_to_the_next_candidate(plane, tmp_path):
    mount = {"mountpoint": str(tmp_path), "root_dir": "3fs", "key_count_per_file": 1}
    hot = storage(name="hot", number=2, type=StorageType.HF3FS, spec=mount)
    quota = Quota(1 << 40, {StorageType.HF3FS: 2048, StorageType.NFS: 1024})
    plane.publish(2, hot, group(storage_candidates=("hot", "nfs_01"), quota=quota))
    await plane.mirror.refresh()
    kinds = [found((await plane.start([key])).locations[0]).type for key in (1, 2, 3)]
    assert kinds == [1, 1, 4]
    error = await refused(plane.start([4]), Code.CAPACITY)
    assert "hot" in error.message


async def test_no_usable_storage_names_each_reason(plane, tmp_path):
    plane.publish(2, storage(tmp_path, is_draining=True), group(storage_candidates=("nfs_01", "ghost")))
    await plane.mirror.refresh()
    error = await refused(plane.start([1]), Code.IO_ERROR)
    assert "nfs_01: draining" in error.message
    assert "ghost: does not exist" in error.message


async def test_max_key_count_refuses_and_gives_everything_back(plane):
    few = group(meta_indexer=MetaIndexerSettings(max_key_count=3))
    plane.publish(2, few)
    await plane.mirror.refresh()
    await refused(plane.start(KEYS), Code.CAPACITY)
    await plane.write(KEYS[:3])
    count = await plane.recount()
    assert (count.used, count.reserved, count.has_drift) == (3 * 1024, 0, False)


async def test_spec_groups_choose_what_a_block_has(plane):
    layers = [("full", 100), ("linear", 50)]
    plane.publish(
        2, instance("hybrid", 0xDEF, specs=layers, groups=[("both", ["full", "linear"]), ("some", ["full"])])
    )
    await plane.mirror.refresh()
    started = await plane.start([1, 2, 3], "hybrid", groups=["some", "both", "some"])
    specs = [[name for name, _ in found(wire).specs] for wire in started.locations]
    assert specs == [["full"], ["full", "linear"], ["full"]]
    await plane.finish(started, 3, "hybrid")
    count = await plane.recount()
    assert count.used == count.recounted == 100 + 150 + 100
    for names in (["some"], ["some", "none", "some"]):
        await refused(
            plane.start([1, 2, 3], "hybrid", groups=names), Code.INVALID_ARGUMENT, "location_spec_group_names"
        )


async def test_sessions_are_limited(plane, empty_valkey):
    async with data_plane(empty_valkey.url, plane.client, limits=Limits(max_sessions=2)) as small:
        await small.start([1])
        await small.start([2])
        await refused(small.start([3]), Code.TOO_MANY)
    count = await plane.recount()
    assert (count.used, count.reserved) == (2 * 1024, 0)


async def test_racing_starts_place_each_block_once(plane, empty_valkey):
    """Several processes start overlapping prompts at once: every key gets exactly one location."""
    async with data_plane(empty_valkey.url, plane.client) as other:
        prompts = [list(range(start, start + 700)) for start in (1, 1, 200, 400, 1)]
        planes = [plane, other, plane, other, other]
        starts = await asyncio.gather(*(p.start(keys) for p, keys in zip(planes, prompts, strict=True)))
        placed = [found(wire).uri for started in starts for wire in started.locations]
        assert len(placed) == len(set(placed)) == 1099
        for started, keys in zip(starts, prompts, strict=True):
            flags = started.mask if isinstance(started.mask, list) else None
            count = len(keys) - started.mask if flags is None else flags.count(False)
            assert count == len(started.locations)
        await asyncio.gather(*(p.finish(s, len(s.locations)) for p, s in zip(planes, starts, strict=True)))
        assert len(await plane.match(list(range(1, 1100)))) == 1099
        await other.index.pusher.flush()
    await plane.index.pusher.flush()
    await plane.duties()
    count = await plane.recount()
    assert (count.used, count.has_drift) == (1099 * 1024, False)


async def test_no_uri_is_ever_issued_twice(plane):
    """The same keys are written, failed, removed and written again, many times over."""
    issued: set[str] = set()
    for round_number in range(30):
        started = await plane.start(KEYS)
        uris = {found(wire).uri for wire in started.locations}
        assert len(uris) == 4
        assert not uris & issued
        issued |= uris
        await plane.finish(started, [round_number % 2 == 0] * 4)
        if round_number % 2 == 0:
            await plane.index.remove(plane.mirror.current.instances["model-a"], KEYS, 0)
            await plane.duties()


async def test_meta_shows_ids_and_states(plane):
    started = await plane.start(KEYS[:2])
    await plane.finish(started, 1)
    metas = await plane.service.get_cache_meta("model-a", Blocks(KEYS[:2], ()), None)
    assert [meta.status.name for meta in metas] == ["SERVING", "NOT_FOUND"]
    assert len(metas[0].location_id) == 8
    assert metas[1].location_id == ""
    assert found(metas[1].location).spec_size == 1


@pytest.mark.parametrize("tail", [":k", ":m", "", "x", "\0", "A"])
async def test_only_session_ids_name_sessions(plane, tail):
    """Parts of a session lie beside it under longer names: no client may reach them."""
    started = await plane.start(KEYS)
    wrong = started.session_id[: -1 if tail == "A" else None] + tail if tail else ""
    with pytest.raises(DomainError) as caught:
        await plane.service.finish_write("model-a", wrong, 4)
    assert (caught.value.code, caught.value.message) == (Code.INTERNAL, GONE)
    await plane.finish(started, 4)


async def test_more_locations_than_an_answer_holds_are_refused_before_any_is_made(plane):
    plane.publish(2, instance("wide", 0xDEF, specs=[(f"tp{n}", 1) for n in range(200)]))
    await plane.mirror.refresh()
    await refused(plane.start(range(1, 4097), "wide"), Code.TOO_LARGE, "block_keys")
    assert plane.client.hlen(keyspace.sessions(keyspace.instance(0xDEF, 0))) == 0
    assert len((await plane.start(range(1, 101), "wide")).locations) == 100


async def test_tokens_name_no_more_blocks_than_keys_may(plane, empty_valkey):
    async with data_plane(empty_valkey.url, plane.client, limits=Limits(max_keys=10)) as small:
        for call in (
            small.service.start_write("model-a", Blocks((), range(44)), (), 30),
            small.service.get_cache_location("model-a", 2, Blocks((), range(44)), None, 0, ()),
        ):
            await refused(call, Code.TOO_LARGE, "token_ids")
        started = await small.service.start_write("model-a", Blocks((), range(43)), (), 30)
        assert len(started.locations) == 10
