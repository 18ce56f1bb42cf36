"""The client and the replay against real metadata processes over a real Valkey."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kvcm_platform.client import BlockingMetadataClient, Connection, KvcmError, MetadataClient, Registration
from kvcm_platform.client.load.replay import SPEC_NAME, Replay, ReplayOptions
from kvcm_platform.client.load.report import Report
from kvcm_platform.core.block_keys import chained_block_keys
from kvcm_platform.core.registry import LocationSpecGroup, LocationSpecInfo, ModelDeployment
from kvcm_platform.core.traces import TraceRequest
from kvcm_platform.core.types import QueryType, StorageType, TrimStrategy
from kvcm_platform.transfer import FileTransfer

from .metadata_processes import MetadataProcesses

BLOCK_BYTES = 1024


_numbers = itertools.count(1)


def registration(instance_id: str) -> Registration:
    return Registration(
        instance_group="default",
        instance_id=instance_id,
        block_size=4,
        location_spec_infos=(LocationSpecInfo("tp0", 512), LocationSpecInfo("tp1", 512)),
        location_spec_groups=(LocationSpecGroup("half", ("tp1",)),),
        model_deployment=ModelDeployment("Qwen3", "fp8", tp_size=2),
    )


@pytest.fixture
def me(shared_platform: MetadataProcesses) -> str:
    """Id of an instance that no other test knows."""
    number = next(_numbers)
    shared_platform.publish_instance(registration(f"qwen-{number}"), number)
    return f"qwen-{number}"


@pytest.fixture
def client(shared_platform: MetadataProcesses, me: str) -> Iterator[BlockingMetadataClient]:
    with BlockingMetadataClient(Connection(shared_platform.endpoint, timeout_seconds=5)) as client:
        client.register_instance(registration(me))
        yield client


def write(client: BlockingMetadataClient, me: str, keys: list[int]) -> None:
    started = client.start_write(me, keys)
    client.finish_write(me, started.session_id, [True] * len(started.locations))


class TestClient:
    def test_registration_tells_the_storages(self, client: BlockingMetadataClient, me: str) -> None:
        (storage,) = client.register_instance(registration(me))
        assert (storage.name, storage.type, storage.is_available) == ("nfs_01", "file", True)
        assert storage.spec["key_count_per_file"] == 8
        info = client.get_instance_info(me)
        assert info.instance_group == "default"
        assert info.location_spec_infos == registration(me).location_spec_infos
        assert info.location_spec_groups == registration(me).location_spec_groups
        assert info.model_deployment == registration(me).model_deployment

    def test_what_was_started_is_what_is_found(
        self, client: BlockingMetadataClient, me: str, shared_platform: MetadataProcesses
    ) -> None:
        keys = [5, -6, 7, 1 << 62]
        started = client.start_write(me, keys)
        assert (started.mask, list(started.to_write_indexes)) == (0, [0, 1, 2, 3])
        assert [spec.name for spec in started.locations[0].specs] == ["tp0", "tp1"]
        client.finish_write(me, started.session_id, [True, True, False, True])
        assert client.get_cache_location(me, keys) == started.locations[:2]
        every = client.get_cache_location(me, keys, query_type=QueryType.BATCH_GET)
        assert [location.is_placeholder for location in every] == [False, False, True, False]
        assert client.get_cache_location_len(me, keys) == 2
        again = client.start_write(me, keys)
        assert again.mask == (True, True, False, True)
        assert list(again.to_write_indexes) == [2]

    def test_masks_windows_and_parts(self, client: BlockingMetadataClient, me: str) -> None:
        keys = list(range(1, 6))
        write(client, me, [1, 2, 4, 5])
        assert len(client.get_cache_location(me, keys, mask=3)) == 2
        window = client.get_cache_location(
            me, keys, query_type=QueryType.REVERSE_ROLL_SW_MATCH, sw_size=2, spec_names=["tp1"]
        )
        assert [location.is_placeholder for location in window] == [True, True, True, False, False]
        assert [spec.name for spec in window[3].specs] == ["tp1"]
        with pytest.raises(KvcmError, match=r"INVALID_ARGUMENT: sw_size"):
            client.get_cache_location(me, keys, query_type=QueryType.REVERSE_ROLL_SW_MATCH, sw_size=9)

    def test_replicas_and_locations_by_backend(self, client: BlockingMetadataClient, me: str) -> None:
        write(client, me, [1, 2])
        second = client.start_write(me, [1, 2, 3], min_replica_count=2)
        assert len(second.locations) == 3
        found = client.get_cache_locations_by_backend(
            me, [1, 2, 3], backends=[StorageType.NFS, StorageType.MOONCAKE], spec_names=["tp1"]
        )
        assert [len(locations) for locations in found] == [1, 1, 0]
        assert [spec.name for spec in found[0][0].specs] == ["tp1"]
        assert [len(one) for one in client.get_cache_locations_by_backend(me, [1, 3])] == [1, 0]

    def test_tokens_name_the_same_blocks_as_their_keys(self, client: BlockingMetadataClient, me: str) -> None:
        tokens = list(range(1, 11))
        started = client.start_write(me, tokens=tokens)
        client.finish_write(me, started.session_id, len(started.locations))
        assert len(started.locations) == 2
        assert client.get_cache_location(me, chained_block_keys(tokens, 4)) == started.locations

    def test_states_removal_and_trim(self, client: BlockingMetadataClient, me: str) -> None:
        write(client, me, [1, 2, 3])
        assert [meta.status for meta in client.get_cache_meta(me, [1, 9])] == [
            "CLS_SERVING",
            "CLS_NOT_FOUND",
        ]
        client.remove(me, [1, 2], keep=[True, False])
        gone_within(0.5, lambda: client.get_cache_location_len(me, [2]))
        assert client.get_cache_location_len(me, [1]) == 1
        client.trim(me, TrimStrategy.REMOVE_ALL_CACHE)
        gone_within(2.0, lambda: client.get_cache_location_len(me, [1]))

    def test_refusals(self, client: BlockingMetadataClient, me: str) -> None:
        with pytest.raises(KvcmError, match="INTERNAL_ERROR: write_session_id has been deleted"):
            client.finish_write(me, "x" * 32, 0)
        with pytest.raises(KvcmError, match="INSTANCE_NOT_EXIST"):
            client.get_cache_location("nobody", [1])
        with pytest.raises(KvcmError, match="SERVICE_NOT_READY"):
            client.register_instance(registration("new, and control is down"))

    def test_cluster_info(self, client: BlockingMetadataClient, me: str) -> None:
        assert client.get_cluster_info(me).self_node_id

    async def test_asynchronous(
        self, client: BlockingMetadataClient, me: str, shared_platform: MetadataProcesses
    ) -> None:
        async with MetadataClient(Connection(shared_platform.endpoint, timeout_seconds=5)) as asynchronous:
            started = await asynchronous.start_write(me, [1, 2])
            await asynchronous.finish_write(me, started.session_id, 2)
            assert await asynchronous.get_cache_location(me, [1, 2, 3]) == started.locations

    def test_bytes_go_where_the_uris_say(
        self, client: BlockingMetadataClient, me: str, shared_platform: MetadataProcesses
    ) -> None:
        started = client.start_write(me, list(range(20)))
        blocks = [
            (uri, f"{index}/{name}".encode().ljust(512))
            for index, parts in enumerate(started.locations.parts())
            for name, uri in parts
        ]
        with FileTransfer(root=shared_platform.blocks_root) as transfer:
            assert transfer.write_batch(blocks) == [None] * 40
            client.finish_write(me, started.session_id, 20)
            found = client.get_cache_location(me, list(range(20)))
            uris = [uri for parts in found.parts() for _, uri in parts]
            assert transfer.read_batch(uris) == [data for _, data in blocks]


def gone_within(seconds: float, count: Callable[[], int]) -> None:
    deadline = time.monotonic() + seconds
    while count():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def trace(count: int) -> list[TraceRequest]:
    """Conversations of four turns, taking turns, under three system prompts."""
    requests = []
    for number in range(count):
        turn, chat = divmod(number % 40, 10)
        chat += number // 40 * 10
        system = [(chat % 3 + 1) << 50 | block for block in range(10)]
        own = [(chat + 7) << 20 | block for block in range(6 * (turn + 1))]
        requests.append(TraceRequest(number * 0.001, system + own, 1, 1))
    return requests


def model(requests: list[TraceRequest]) -> tuple[int, int, int]:
    """(asked, hit, distinct) blocks of an endless cache."""
    seen: set[int] = set()
    asked = hit = 0
    for request in requests:
        asked += len(request.block_keys)
        for key in request.block_keys:
            if key not in seen:
                break
            hit += 1
        seen.update(request.block_keys)
    return asked, hit, len(seen)


class TestReplay:
    @pytest.fixture(autouse=True)
    def instance(self, platform: MetadataProcesses) -> None:
        platform.publish_instance(
            Registration(
                instance_group="default",
                instance_id="replay",
                block_size=512,
                location_spec_infos=(LocationSpecInfo(SPEC_NAME, BLOCK_BYTES),),
                model_deployment=ModelDeployment(model_name="replay", dtype="bf16", tp_size=1),
            )
        )

    def replay(self, platform: MetadataProcesses, requests: list[TraceRequest], **more: Any) -> Replay:
        on_request = more.pop("on_request", lambda: None)
        options = ReplayOptions(
            endpoint=platform.endpoint,
            instance_group="default",
            instance_id="replay",
            block_tokens=512,
            block_bytes=BLOCK_BYTES,
            with_data=True,
            data_root=platform.blocks_root,
            **more,
        )
        return Replay(options, iter(requests), on_request=on_request)

    def test_one_engine_counts_what_the_model_counts(self, platform: MetadataProcesses) -> None:
        requests = trace(400)
        asked, hit, distinct = model(requests)
        report = self.replay(platform, requests).run()
        assert (report.blocks, report.hit_blocks, report.written_blocks) == (asked, hit, distinct)
        assert report.bytes_written == distinct * BLOCK_BYTES
        assert report.bytes_read == hit * BLOCK_BYTES
        assert (report.errors, report.write_refused, report.bytes_wrong) == (0, 0, 0)

    def test_a_quota_refuses_and_the_rest_stays_right(self, platform: MetadataProcesses) -> None:
        platform.limit(300 * BLOCK_BYTES)
        time.sleep(0.5)
        report = self.replay(platform, trace(200), engines=4).run()
        assert report.write_refused > 0
        assert 0 < report.written_blocks <= 300
        assert (report.requests, report.errors, report.bytes_wrong) == (200, 0, 0)

    def test_kill_9_of_metadata_processes(self, platform: MetadataProcesses) -> None:
        """One dies and is replaced, then the other: errors for calls in flight only."""
        requests = trace(1600)

        def disturb() -> None:
            for number in (0, 1):
                platform.kill(number)
                time.sleep(0.2)
                platform.spawn()
                platform.wait_until_ready()

        report = self.disturbed(platform, requests, disturb, engines=4)
        assert report.requests == 1600
        assert report.errors <= 2 * 4
        assert report.bytes_wrong == 0

    def test_both_gone_at_once(self, platform: MetadataProcesses) -> None:
        requests = trace(1200)

        def disturb() -> None:
            platform.kill(0)
            platform.kill(1)
            time.sleep(0.5)
            platform.spawn()

        report = self.disturbed(platform, requests, disturb, engines=4)
        assert report.requests == 1200
        assert report.errors <= 4
        assert report.bytes_wrong == 0

    def test_kill_9_of_the_index(self, platform: MetadataProcesses) -> None:
        requests = trace(1200)
        report = self.disturbed(platform, requests, platform.valkey.restart, engines=4)
        assert report.requests == 1200
        # While the index is away every engine's call may be told SERVICE_NOT_READY, once a call.
        assert report.errors <= 3 * 4
        assert report.bytes_wrong == 0

    def disturbed(
        self,
        platform: MetadataProcesses,
        requests: list[TraceRequest],
        disturb: Callable[[], None],
        **more: Any,
    ) -> Report:
        """Plays while `disturb` happens after a fifth of the prompts; the load waits for nothing."""
        done = 0
        lock, reached = threading.Lock(), threading.Event()

        def count() -> None:
            nonlocal done
            with lock:
                done += 1
                if done == len(requests) // 5:
                    reached.set()

        result: list[Report] = []
        run = self.replay(platform, requests, on_request=count, **more)
        thread = threading.Thread(target=lambda: result.append(run.run()))
        thread.start()
        assert reached.wait(60)
        disturb()
        thread.join(90)
        assert not thread.is_alive()
        return result[0]
