"""The query examples of WIRE.md 3.3: keys A B C D E; A, B, D, E serving; C missing."""

from __future__ import annotations

import pytest

from kvcm_platform.core.admission import Admission
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.metadata import MetadataService
from kvcm_platform.core.types import QueryType
from kvcm_platform.core.use_cases import Blocks, Limits
from kvcm_platform.index.permits import RedisPermits
from kvcm_platform.index.records import WireRecords
from tests.support.data_plane import DataPlane, found, found_all, group, instance, storage

A, B, C, D, E = KEYS = [11, -22, 33, 44, -55]
BATCH, PREFIX, WINDOW = QueryType.BATCH_GET, QueryType.PREFIX_MATCH, QueryType.REVERSE_ROLL_SW_MATCH


@pytest.fixture
async def uris(plane: DataPlane) -> dict[str, int]:
    """URI -> key of what is serving."""
    started = await plane.write([A, B, D, E])
    return {found(wire).uri: key for wire, key in zip(started.locations, [A, B, D, E], strict=True)}


async def answer(plane: DataPlane, uris: dict[str, int], query: int, **options) -> list[int | None]:
    """Keys in the order of the answer, None for a placeholder."""
    result = []
    for location in await plane.match(KEYS, query, **options):
        if location.uri:
            assert location.type == 4
            result.append(uris[location.uri])
        else:
            assert (location.type, location.spec_size, location.specs) == (0, 1, (("tp0", ""),))
            result.append(None)
    return result


async def test_batch_get_answers_every_key(plane, uris):
    assert await answer(plane, uris, BATCH) == [A, B, None, D, E]
    assert await answer(plane, uris, BATCH, mask=3) == [A, B, None, D, E]  # the mask is not used


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (None, [A, B]),
        (1, [B]),
        (2, []),
        (3, [D, E]),
        (5, []),
        (99, []),
        ([True, False, True, False, False], [B, D, E]),
        ([False, False, True], [A, B, D, E]),
    ],
)
async def test_prefix_match_drops_masked_keys_and_stops_at_the_first_miss(plane, uris, mask, expected):
    assert await answer(plane, uris, PREFIX, mask=mask) == expected


@pytest.mark.parametrize(
    ("size", "expected"),
    [(2, [None, None, None, D, E]), (1, [None, None, None, None, E]), (3, [None] * 5)],
)
async def test_window_finds_the_rightmost_run(plane, uris, size, expected):
    assert await answer(plane, uris, WINDOW, sw_size=size) == expected


@pytest.mark.parametrize("size", [0, -1, 6])
async def test_window_size_outside_the_keys_is_refused(plane, uris, size):
    with pytest.raises(DomainError) as caught:
        await plane.match(KEYS, WINDOW, sw_size=size)
    assert (caught.value.code, caught.value.field) == (Code.INVALID_ARGUMENT, "sw_size")
    # Other query types ignore it: C++ clients always send -1.
    assert len(await plane.match(KEYS, PREFIX, sw_size=-1)) == 2


@pytest.mark.parametrize("query", [0, 9])
async def test_unknown_query_types(plane, query):
    with pytest.raises(DomainError) as caught:
        await plane.match(KEYS, query)
    assert caught.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("query", "sw_size", "length"), [(PREFIX, 0, 2), (BATCH, 0, 4), (WINDOW, 2, 5), (WINDOW, 3, 0)]
)
async def test_location_len(plane, uris, query, sw_size, length):
    assert await plane.service.get_cache_location_len("model-a", query, Blocks(KEYS, ()), sw_size) == length


async def test_a_match_longer_than_its_first_chunks(plane):
    keys = list(range(1, 5001))
    await plane.write(keys[:4000])
    assert len(await plane.match(keys)) == 4000


async def test_block_keys_win_over_token_ids_and_one_must_be_there(plane, uris):
    wires = await plane.service.get_cache_location("model-a", PREFIX, Blocks([A], [1, 2, 3, 4]), None, 0, ())
    assert len(wires) == 1
    with pytest.raises(DomainError) as caught:
        await plane.service.get_cache_location("model-a", PREFIX, Blocks((), ()), None, 0, ())
    assert (caught.value.code, caught.value.field) == (Code.INVALID_ARGUMENT, "block_keys")


async def test_token_ids_name_the_same_blocks_as_their_keys(plane):
    # tokens 1..8 with block size 4: the check values of WIRE.md 3.1
    await plane.write([455111481605203084, 6902853672176602142])
    wires = await plane.service.get_cache_location("model-a", PREFIX, Blocks((), range(1, 9)), None, 0, ())
    assert len(found_all(wires)) == 2


async def test_unknown_or_empty_instance(plane):
    for instance_id in ("nobody", ""):
        with pytest.raises(DomainError) as caught:
            await plane.match(KEYS, instance_id=instance_id)
        assert caught.value.code is Code.INSTANCE_NOT_EXIST


async def test_too_many_keys_are_refused_before_any_work(plane):
    small = MetadataService(
        *(plane.index, plane.cache, WireRecords(), plane.mirror, plane.facts),
        Admission(RedisPermits(plane.index.connection), plane.facts),
        Limits(max_keys=3, max_tokens=3),
    )
    for blocks, field in ((Blocks([1] * 4, ()), "block_keys"), (Blocks((), [1] * 4), "token_ids")):
        with pytest.raises(DomainError) as caught:
            await small.get_cache_location("model-a", PREFIX, blocks, None, 0, ())
        assert (caught.value.code, caught.value.field) == (Code.TOO_LARGE, field)


async def test_spec_filter_keeps_spec_size(plane, tmp_path):
    plane.publish(2, instance("two", 0xDEF, specs=[("tp0", 64), ("tp1", 64)]))
    await plane.mirror.refresh()
    await plane.write([1], "two")
    (whole,) = await plane.match([1], instance_id="two")
    (part,) = await plane.match([1], names=["tp1"], instance_id="two")
    assert [name for name, _ in whole.specs] == ["tp0", "tp1"]
    assert (part.spec_size, part.specs) == (2, (whole.specs[1],))
    placeholders = await plane.match([9], BATCH, names=["tp0"], instance_id="two")
    assert (placeholders[0].spec_size, placeholders[0].specs) == (2, (("tp0", ""),))


async def test_an_unserved_storage_hides_its_blocks_until_it_is_back(plane, uris, tmp_path):
    plane.publish(
        2, storage(tmp_path / "nfs", is_enabled=False), storage("/tmp/other/", name="nfs_02", number=2)
    )
    plane.publish(3, group(storage_candidates=("nfs_01", "nfs_02"), version=2))
    await plane.mirror.refresh()
    assert await answer(plane, uris, PREFIX) == []
    plane.publish(4, storage(tmp_path / "nfs"))
    await plane.mirror.refresh()
    assert await answer(plane, uris, PREFIX) == [A, B]


async def test_without_any_readable_storage_the_query_says_so(plane, uris, tmp_path):
    plane.publish(2, storage(tmp_path / "nfs", is_available=False, unavailable_reason="no answer"))
    await plane.mirror.refresh()
    with pytest.raises(DomainError, match="no answer") as caught:
        await plane.match(KEYS)
    assert caught.value.code is Code.IO_ERROR


async def test_requested_and_hit_blocks_are_counted(plane, uris):
    plane.facts.take()
    await plane.match(KEYS)
    await plane.match(KEYS, mask=1)
    counted = {command[2]: command[3] for command in plane.facts.take() if command[0] == "HINCRBY"}
    assert counted["model-a|requests"] == 2
    assert counted["model-a|requested_blocks"] == 9
    assert counted["model-a|hit_blocks"] == 3
