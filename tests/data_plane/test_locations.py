"""Several locations a block: replicas, growing spec groups, and the choice among them (WIRE.md 1.3a, 3.4)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.queries import BackendSelector
from kvcm_platform.core.types import QueryType, StorageType, TrimStrategy
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.index import keyspace
from kvcm_platform.storage import marker
from tests.support.data_plane import DataPlane, Found, data_plane, found, group, instance, storage

NFS, HF3FS = 4, 1
KEYS = [101, 102, 103, 104]
LAYERS = [("full", 100), ("state", 50)]
GROUPS = [("attention", ["full"]), ("recurrent", ["state"])]
MAMBA = QueryType.PREFIX_MATCH_WITH_MAMBA


@pytest.fixture
async def plane(empty_valkey, client, tmp_path) -> AsyncIterator[DataPlane]:
    """Two storages of different types, instance `model-a`, and `hybrid` with two spec groups."""
    for name in ("nfs", "hot"):
        (tmp_path / name).mkdir()
        marker.mark(str(tmp_path / name))
    hot = {"mountpoint": str(tmp_path), "root_dir": "hot", "key_count_per_file": 1}
    entries = (
        storage(tmp_path / "nfs"),
        storage(name="hot", number=2, type=StorageType.HF3FS, spec=hot),
        group(storage_candidates=("nfs_01", "hot")),
        instance(),
        instance("hybrid", 0xDEF, specs=LAYERS, groups=GROUPS),
    )
    async with data_plane(empty_valkey.url, client, *entries) as built:
        yield built


async def change(plane: DataPlane, version: int, name: str, **changes) -> None:
    plane.publish(version, replace(plane.mirror.current.storages[name], **changes))
    await plane.mirror.refresh()


def names(location: Found) -> list[str]:
    return [name for name, _ in location.specs]


async def shown(plane: DataPlane) -> list[list[str]]:
    """Spec names of each block that a prefix match over `hybrid` gives."""
    return [names(location) for location in await plane.match(KEYS, instance_id="hybrid")]


def types(locations: list[Found]) -> list[int]:
    return [location.type for location in locations]


class TestReplicas:
    async def test_a_start_adds_one_location_a_block_until_there_are_enough(self, plane):
        first = await plane.write(KEYS, replicas=2)
        second = await plane.write(KEYS, replicas=2)
        third = await plane.start(KEYS, replicas=2)
        assert (first.mask, second.mask, third.mask) == (0, 0, len(KEYS))
        # The second copy goes where the first is not.
        assert types([found(wire) for wire in first.locations]) == [NFS] * 4
        assert types([found(wire) for wire in second.locations]) == [HF3FS] * 4
        assert (await plane.start(KEYS)).mask == len(KEYS)
        count = await plane.recount()
        assert (count.used, count.has_drift) == (2 * 4 * 1024, False)

    async def test_a_replica_being_written_counts(self, plane):
        await plane.start(KEYS, replicas=2)
        assert (await plane.start(KEYS, replicas=2)).mask == 0
        assert (await plane.start(KEYS, replicas=2)).mask == len(KEYS)

    async def test_the_survivor_answers_when_a_storage_is_lost_and_it_has_its_weight_back_later(self, plane):
        await plane.write(KEYS)
        await plane.write(KEYS, replicas=2)
        seen = Counter(types([(await plane.match(KEYS))[0] for _ in range(400)]))
        # 5 to 3 by WIRE.md 3.4; chunks keep a few choices, so only the order of magnitude is sure here.
        assert set(seen) <= {NFS, HF3FS}
        await change(plane, 2, "nfs_01", is_available=False)
        assert types(await plane.match(KEYS)) == [HF3FS] * 4
        await change(plane, 3, "hot", is_available=False)
        with pytest.raises(DomainError) as caught:
            await plane.match(KEYS)
        assert caught.value.code is Code.IO_ERROR
        await change(plane, 4, "nfs_01", is_available=True)
        assert types(await plane.match(KEYS)) == [NFS] * 4
        # With one storage served a second copy is missing again, and the other one is not asked.
        assert (await plane.start(KEYS)).mask == len(KEYS)

    async def test_weights_decide_how_often_each_is_chosen(self, plane):
        keys = list(range(1, 2001))
        await plane.write(keys)
        await plane.write(keys, replicas=2)
        batch = Counter(types(await plane.match(keys, QueryType.BATCH_GET)))
        assert 0.56 < batch[NFS] / 2000 < 0.69  # 5 : 3 = 0.625, six standard deviations
        await change(plane, 2, "nfs_01", weight=1)
        await change(plane, 3, "hot", weight=9)
        batch = Counter(types(await plane.match(keys, QueryType.BATCH_GET)))
        assert 0.05 < batch[NFS] / 2000 < 0.15
        await change(plane, 4, "nfs_01", weight=0)
        assert set(types(await plane.match(keys, QueryType.BATCH_GET))) == {HF3FS}
        assert set(types(await plane.match(keys))) == {HF3FS}

    async def test_removal_takes_all_locations(self, plane):
        await plane.write(KEYS)
        await plane.write(KEYS, replicas=2)
        await plane.service.remove_cache("model-a", Blocks(KEYS[:1], ()), None)
        assert await plane.match(KEYS) == []
        base = keyspace.instance(0xABC, 0)
        plane.client.zadd(
            keyspace.pending_due(base), dict.fromkeys(plane.client.zrange(base + ":d", 0, -1), 0)
        )
        await plane.duties()
        count = await plane.recount()
        assert (count.used, count.has_drift) == (2 * 3 * 1024, False)

    @pytest.mark.parametrize("replicas", [-1, 65])
    async def test_counts_outside_the_range_are_refused(self, plane, replicas):
        with pytest.raises(DomainError) as caught:
            await plane.start(KEYS, replicas=replicas)
        assert (caught.value.code, caught.value.field) == (Code.INVALID_ARGUMENT, "min_replica_count")

    async def test_two_planners_that_saw_the_same_replica_add_one_between_them(self, plane, empty_valkey):
        await plane.write(KEYS)
        async with data_plane(empty_valkey.url, plane.client) as other:
            records = plane.index.records
            late: list = []

            async def overtaken(entry, keys):
                found_records = await records(entry, keys)
                if not late:
                    late.append(await other.start(KEYS, replicas=2))
                return found_records

            plane.index.records = overtaken
            slow = await plane.start(KEYS, replicas=2)
        assert (late[0].mask, len(late[0].locations)) == (0, 4)
        assert (slow.mask, slow.locations) == (4, [])
        count = await plane.recount()
        assert not count.has_drift


class TestSpecGroups:
    async def test_a_block_of_a_group_is_a_hit_with_the_groups_specs(self, plane):
        await plane.write(KEYS, "hybrid", groups=["attention"] * 4)
        assert [names(location) for location in await plane.match(KEYS, instance_id="hybrid")] == [
            ["full"]
        ] * 4

    async def test_a_later_start_gets_a_location_for_the_missing_specs_alone(self, plane):
        await plane.write(KEYS, "hybrid", groups=["attention"] * 4)
        later = await plane.start(KEYS, "hybrid")
        assert [names(found(wire)) for wire in later.locations] == [["state"]] * 4
        # Until it is finished, readers have what was there.
        assert await shown(plane) == [["full"]] * 4
        await plane.finish(later, [True, True, False, False], "hybrid")
        whole = await plane.match(KEYS, instance_id="hybrid")
        assert [names(one) for one in whole] == [["full", "state"]] * 2 + [["full"]] * 2
        assert [one.spec_size for one in whole] == [2, 2, 1, 1]
        assert whole[0].specs[1] == found(later.locations[0]).specs[0]
        count = await plane.recount()
        # 4 x full, 2 x state, and 2 x state that failed and wait for their deletion
        assert (count.used, count.has_drift) == (400 + 100 + 100, False)

    async def test_a_start_for_specs_that_are_there_gets_nothing(self, plane):
        await plane.write(KEYS, "hybrid")
        for names_of_groups in (["attention"] * 4, ["recurrent"] * 4):
            assert (await plane.start(KEYS, "hybrid", groups=names_of_groups)).mask == 4

    async def test_a_block_with_one_spec_missing_is_a_miss(self, plane):
        """Its parts lie on two storages; without one of them no whole set that was asked for is left."""
        await plane.write(KEYS, "hybrid", groups=["attention"] * 4)
        await change(plane, 2, "nfs_01", is_full=True)
        later = await plane.write(KEYS, "hybrid")
        assert types([found(wire) for wire in later.locations]) == [HF3FS] * 4
        assert await shown(plane) == [["full", "state"]] * 4
        await change(plane, 3, "nfs_01", is_available=False)
        assert await plane.match(KEYS, instance_id="hybrid") == []
        await change(plane, 4, "nfs_01", is_available=True)
        await change(plane, 5, "hot", is_available=False)
        assert await shown(plane) == [["full"]] * 4

    async def test_the_next_answer_of_another_process_has_the_new_specs(self, plane, empty_valkey):
        """Its search cache holds the block without them."""
        keys = list(range(1, 129))
        await plane.write(keys, "hybrid", groups=["attention"] * 128)
        async with data_plane(empty_valkey.url, plane.client, is_strict=False) as reader:
            for _ in range(2):
                assert {len(one.specs) for one in await reader.match(keys, instance_id="hybrid")} == {1}
            assert reader.cache.counters.hit_chunks
            await plane.write(keys[:1], "hybrid")
            sizes = [len(one.specs) for one in await reader.match(keys, instance_id="hybrid")]
            assert sizes == [2] + [1] * 127

    async def test_spec_names_filter_what_a_hit_shows(self, plane):
        await plane.write(KEYS, "hybrid")
        shown = await plane.match(KEYS, instance_id="hybrid", names=["state"])
        assert [(one.spec_size, names(one)) for one in shown] == [(2, ["state"])] * 4


class TestMamba:
    """The prefix must end where the recurrent state is there too."""

    @pytest.mark.parametrize(
        ("with_state", "expected"),
        [([], 0), ([101], 1), ([102], 2), ([101, 103], 3), ([104], 4)],
    )
    async def test_the_prefix_ends_at_the_last_block_with_every_spec(self, plane, with_state, expected):
        groups = dict.fromkeys(KEYS, "attention")
        await plane.write(KEYS, "hybrid", groups=list(groups.values()))
        if with_state:
            await plane.write(with_state, "hybrid")
        match = await plane.match(KEYS, MAMBA, instance_id="hybrid")
        assert len(match) == expected
        if expected:
            assert names(match[-1]) == ["full", "state"]
        length = await plane.service.get_cache_location_len("hybrid", MAMBA, Blocks(KEYS, ()), 0)
        assert length == expected

    async def test_a_hole_ends_it_and_masked_blocks_are_not_looked_at(self, plane):
        await plane.write([KEYS[1], KEYS[3]], "hybrid")
        assert await plane.match(KEYS, MAMBA, instance_id="hybrid") == []
        assert len(await plane.match(KEYS, MAMBA, mask=1, instance_id="hybrid")) == 1
        assert len(await plane.match(KEYS, MAMBA, mask=3, instance_id="hybrid")) == 1

    async def test_without_groups_it_is_a_prefix_match(self, plane):
        keys = list(range(1, 1001))
        await plane.write(keys[:700])
        assert len(await plane.match(keys, MAMBA)) == 700


class TestByBackend:
    async def ask(self, plane: DataPlane, *selectors: tuple[int, int], keys=KEYS, names=()):
        answer = await plane.service.get_cache_locations_by_backend(
            "model-a",
            QueryType.BATCH_GET,
            Blocks(keys, ()),
            names,
            [BackendSelector(*one) for one in selectors],
        )
        return [types([found(wire) for wire in wires]) for wires in answer]

    @pytest.fixture(autouse=True)
    async def blocks(self, plane) -> None:
        """101 and 103 on both storages, 102 on nfs alone, 104 nowhere."""
        await plane.write(KEYS[:3])
        await plane.write([101, 103], replicas=2)

    async def test_each_selector_gives_at_most_one_location_a_key(self, plane):
        assert await self.ask(plane, (NFS, 3), (HF3FS, 0)) == [[NFS, HF3FS], [NFS], [NFS, HF3FS], []]
        assert await self.ask(plane, (HF3FS, 2)) == [[HF3FS], [], [HF3FS], []]
        assert await self.ask(plane, (2, 0)) == [[], [], [], []]

    async def test_a_prefix_strategy_stops_at_the_first_gap(self, plane):
        assert await self.ask(plane, (HF3FS, 1), (NFS, 2)) == [[HF3FS, NFS], [NFS], [NFS], []]

    async def test_without_selectors_one_of_any(self, plane):
        assert [len(one) for one in await self.ask(plane)] == [1, 1, 1, 0]

    @pytest.mark.parametrize("selector", [(77, 0), (NFS, 9), (NFS, -1)])
    async def test_unknown_selectors_are_refused(self, plane, selector):
        with pytest.raises(DomainError) as caught:
            await self.ask(plane, selector)
        assert caught.value.code is Code.INVALID_ARGUMENT

    async def test_other_query_types_are_refused(self, plane):
        with pytest.raises(DomainError) as caught:
            await plane.service.get_cache_locations_by_backend("model-a", 2, Blocks(KEYS, ()), (), ())
        assert (caught.value.code, caught.value.field) == (Code.INVALID_ARGUMENT, "query_type")


async def test_a_crashed_start_of_parts_leaves_no_slot_behind(plane):
    """The sweeper rebuilds what a Start had named, parts and groups included."""
    keys = list(range(1, 1301))
    await plane.write(keys[:600], "hybrid", groups=["attention"] * 600)
    function = plane.index.function
    calls = 0

    async def dies(name, base, *args):
        nonlocal calls
        calls += name == "kvcm_write"
        if calls == 2 and name == "kvcm_write":
            raise ConnectionResetError
        return await function(name, base, *args)

    plane.index.function = dies
    with pytest.raises(ConnectionResetError):
        await plane.start(keys, "hybrid", timeout=1)
    plane.index.function = function
    base = keyspace.instance(0xDEF, 0)
    (session_id,) = plane.client.zrange(keyspace.session_deadlines(base), 0, -1)
    raw = plane.client.hget(keyspace.sessions(base), session_id)
    past = plane.index.now_ms() - 1
    plane.client.hset(keyspace.sessions(base), session_id, raw[:7] + past.to_bytes(6) + raw[13:])
    plane.client.zadd(keyspace.session_deadlines(base), {session_id: past})
    await plane.duties()
    freed = [value[0:1] for value in plane.client.hvals(keyspace.pending(base))]
    assert len(freed) == 1300
    count = await plane.recount()
    assert (count.used, count.has_drift, count.reserved) == (600 * 100, False, 0)


class TestPartsThatLostTheirOthers:
    """Overlapping groups: what says "exists" to a writer is, or will be, a hit for a reader."""

    @pytest.fixture
    async def plane(self, plane: DataPlane) -> DataPlane:
        names = [("f", ["full"]), ("s", ["state"]), ("both", ["full", "state"])]
        plane.publish(2, instance("parts", 0xFA7, specs=LAYERS, groups=names))
        await plane.mirror.refresh()
        return plane

    async def test_a_part_whose_other_part_failed_is_written_anew(self, plane):
        first = await plane.start([1], "parts", groups=["f"])
        rest = await plane.write([1], "parts", groups=["both"])
        assert names(found(rest.locations[0])) == ["state"]
        assert (await plane.start([1], "parts", groups=["s"])).mask == 1  # both parts are on their way
        await plane.finish(first, 0, "parts")
        assert await plane.match([1], instance_id="parts") == []
        await plane.write([1], "parts", groups=["s"])
        (hit,) = await plane.match([1], instance_id="parts")
        assert names(hit) == ["state"]
        assert not (await plane.recount()).has_drift

    async def test_the_same_after_a_trim_took_the_older_part(self, plane):
        await plane.write([1], "parts", groups=["f"])
        old = int(plane.client.time()[0])
        while int(plane.client.time()[0]) == old:
            await asyncio.sleep(0.05)
        await plane.write([1], "parts", groups=["both"])
        await plane.service.trim_cache("parts", TrimStrategy.TIMESTAMP, 0, old)
        plane.make_due()
        await plane.duties()
        assert await plane.match([1], instance_id="parts") == []
        await plane.write([1], "parts", groups=["s"])
        assert len(await plane.match([1], instance_id="parts")) == 1


async def test_selectors_are_bounded(plane):
    await plane.write(KEYS)
    keys = list(range(1, 1001))
    wanted = [BackendSelector(NFS, 3)] * 66
    with pytest.raises(DomainError) as caught:
        await plane.service.get_cache_locations_by_backend(
            "model-a", QueryType.BATCH_GET, Blocks(keys, ()), (), wanted
        )
    assert (caught.value.code, caught.value.field) == (Code.TOO_LARGE, "backend_selectors")
