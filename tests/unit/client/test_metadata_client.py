"""Both clients against a small in-process service: requests as sent, answers as read, retries."""

from __future__ import annotations

import inspect
import socket
import time

import pytest

from kvcm_platform.client import (
    BlockingKvClient,
    BlockingMetadataClient,
    Connection,
    KvClient,
    KvcmError,
    Location,
    MetadataClient,
    Registration,
    RetryPolicy,
    Spec,
    TransportError,
)
from kvcm_platform.core.types import QueryType, TrimStrategy
from kvcm_platform.pb import meta_service_pb2 as pb

from .fake_meta import FakeMeta, serve


def write(client: BlockingMetadataClient, keys: list[int]) -> None:
    started = client.start_write("qwen", keys)
    client.finish_write("qwen", started.session_id, len(started.locations))


class TestAnswers:
    def test_registration_sends_everything_and_returns_the_storages(
        self, client: BlockingMetadataClient, service: FakeMeta, registration: Registration
    ) -> None:
        storages = client.register_instance(registration, trace_id="t1")
        assert [(s.name, s.type, s.is_available) for s in storages] == [("nfs_01", "file", True)]
        assert storages[0].spec == {"root_path": "/x/", "key_count_per_file": 4}
        sent = service.last["RegisterInstance"]
        assert (sent.trace_id, sent.instance_group, sent.block_size) == ("t1", "default", 16)
        assert [(s.name, s.size) for s in sent.location_spec_infos] == [("tp0", 64), ("tp1", 64)]
        assert sent.model_deployment.tp_size == 2

    def test_instance_info_is_what_was_registered(
        self, client: BlockingMetadataClient, registration: Registration
    ) -> None:
        info = client.get_instance_info("qwen")
        assert info.instance_group == "default"
        assert info.location_spec_infos == registration.location_spec_infos
        assert info.location_spec_groups == registration.location_spec_groups
        assert info.model_deployment == registration.model_deployment

    def test_a_written_block_is_found_with_all_its_parts(
        self, client: BlockingMetadataClient, service: FakeMeta
    ) -> None:
        started = client.start_write("qwen", [7, -7])
        assert (started.mask, list(started.to_write_indexes)) == (0, [0, 1])
        client.finish_write("qwen", started.session_id, [True, True])
        found = client.get_cache_location("qwen", [7, -7, 8])
        assert found == started.locations
        assert found[0] == Location(
            type="ST_NFS",
            specs=(
                Spec("tp0", f"file://nfs_01{service.root}/qwen/tp0/s1_0?blkid=0&size=64"),
                Spec("tp1", f"file://nfs_01{service.root}/qwen/tp1/s1_0?blkid=0&size=64"),
            ),
            spec_size=1,
        )
        assert found.parts()[1][0] == ("tp0", f"file://nfs_01{service.root}/qwen/tp0/s1_0?blkid=1&size=64")
        assert client.get_cache_location_len("qwen", [7, -7, 8]) == 2

    def test_a_bool_mask_names_the_blocks_to_write(self, client: BlockingMetadataClient) -> None:
        write(client, [2])
        started = client.start_write("qwen", [1, 2, 3])
        assert started.mask == (False, True, False)
        assert list(started.to_write_indexes) == [0, 2]
        assert len(started.locations) == 2

    def test_an_offset_mask_skips_a_prefix(self, client: BlockingMetadataClient) -> None:
        write(client, [1, 2])
        started = client.start_write("qwen", [1, 2, 3])
        assert (started.mask, list(started.to_write_indexes)) == (2, [2])

    def test_placeholders_of_a_batch_get(self, client: BlockingMetadataClient) -> None:
        write(client, [1])
        found = client.get_cache_location("qwen", [5, 1], query_type=QueryType.BATCH_GET)
        assert [location.is_placeholder for location in found] == [True, False]

    def test_metas(self, client: BlockingMetadataClient) -> None:
        write(client, [1])
        metas = client.get_cache_meta("qwen", [1, 2])
        assert [m.status for m in metas] == ["CLS_SERVING", "CLS_NOT_FOUND"]
        assert metas[0].detail["id"] == "a1"

    def test_cluster_info(self, client: BlockingMetadataClient) -> None:
        info = client.get_cluster_info()
        assert (info.self_node_id, info.leader_node_id) == ("n1", "n2")
        assert (info.leader_host, info.leader_meta_rpc_port) == ("10.0.0.2", 6381)


class TestRequests:
    def test_query_members(self, client: BlockingMetadataClient, service: FakeMeta) -> None:
        client.get_cache_location(
            "qwen",
            [1, 2],
            query_type=QueryType.REVERSE_ROLL_SW_MATCH,
            mask=1,
            sw_size=2,
            spec_names=["tp1"],
        )
        sent = service.last["GetCacheLocation"]
        assert (sent.query_type, sent.sw_size) == (pb.QT_REVERSE_ROLL_SW_MATCH, 2)
        assert sent.block_mask.offset == 1
        assert list(sent.location_spec_names) == ["tp1"]
        assert len(sent.trace_id) == 16

    def test_tokens_are_sent_only_without_keys(
        self, client: BlockingMetadataClient, service: FakeMeta
    ) -> None:
        client.get_cache_location("qwen", tokens=range(3))
        assert list(service.last["GetCacheLocation"].token_ids) == [0, 1, 2]
        client.get_cache_location("qwen", [9], tokens=range(3))
        assert not service.last["GetCacheLocation"].token_ids

    def test_the_mask_is_always_present(self, client: BlockingMetadataClient, service: FakeMeta) -> None:
        client.get_cache_location("qwen", [1])
        assert service.last["GetCacheLocation"].block_mask.WhichOneof("info") == "offset"
        started = client.start_write("qwen", [])
        client.finish_write("qwen", started.session_id, [])
        assert service.last["FinishWriteCache"].success_blocks.WhichOneof("info") == "bool_masks"

    def test_remove_without_keep_has_no_mask(self, client: BlockingMetadataClient, service: FakeMeta) -> None:
        client.remove("qwen", [1, 2])
        assert not service.last["RemoveCache"].HasField("block_mask")
        client.remove("qwen", [1, 2], keep=[True, False])
        assert list(service.last["RemoveCache"].block_mask.bool_masks.values) == [True, False]

    def test_trim(self, client: BlockingMetadataClient, service: FakeMeta) -> None:
        client.trim("qwen", TrimStrategy.TIMESTAMP, begin_timestamp=3, end_timestamp=4)
        sent = service.last["TrimCache"]
        assert (sent.strategy, sent.begin_timestamp, sent.end_timestamp) == (pb.TS_TIMESTAMP, 3, 4)

    def test_the_token_travels_with_every_call(
        self, client: BlockingMetadataClient, service: FakeMeta
    ) -> None:
        client.get_cluster_info()
        assert service.metadata["authorization"] == "Bearer secret"
        assert "secret" not in repr(client.connection)


class TestFailures:
    def test_a_refusal_has_the_protocols_code(self, client: BlockingMetadataClient) -> None:
        with pytest.raises(KvcmError) as caught:
            client.finish_write("qwen", "gone", 0)
        assert caught.value.code == "INTERNAL_ERROR"
        assert caught.value.message == "write_session_id has been deleted"
        with pytest.raises(KvcmError, match="INSTANCE_NOT_EXIST"):
            client.get_instance_info("nobody")

    def test_a_safe_call_is_repeated_while_unavailable(
        self, client: BlockingMetadataClient, service: FakeMeta
    ) -> None:
        service.unavailable_next = 2
        assert client.get_cluster_info().self_node_id == "n1"
        assert service.calls["GetClusterInfo"] == 3

    def test_tries_are_bounded(self, client: BlockingMetadataClient, service: FakeMeta) -> None:
        service.unavailable_next = 99
        with pytest.raises(TransportError) as caught:
            client.get_cluster_info()
        assert caught.value.code == "UNAVAILABLE"
        assert service.calls["GetClusterInfo"] == 3

    @pytest.mark.parametrize("rpc", ["StartWriteCache", "FinishWriteCache", "RemoveCache", "TrimCache"])
    def test_an_unsafe_call_is_made_once(
        self, client: BlockingMetadataClient, service: FakeMeta, rpc: str
    ) -> None:
        service.unavailable_next = 1
        with pytest.raises(TransportError, match="UNAVAILABLE"):
            {
                "StartWriteCache": lambda: client.start_write("qwen", [1]),
                "FinishWriteCache": lambda: client.finish_write("qwen", "s", 0),
                "RemoveCache": lambda: client.remove("qwen", [1]),
                "TrimCache": lambda: client.trim("qwen"),
            }[rpc]()
        assert service.calls[rpc] == 1

    def test_the_deadline_covers_all_tries(self, endpoint: str, service: FakeMeta) -> None:
        service.unavailable_next = 10_000
        patient = RetryPolicy(attempts=10_000, first_delay_seconds=0.05, max_delay_seconds=0.05)
        started = time.monotonic()
        with (
            BlockingMetadataClient(Connection(endpoint, timeout_seconds=0.4, retry=patient)) as client,
            pytest.raises(TransportError),
        ):
            client.get_cluster_info()
        assert 0.1 < time.monotonic() - started < 10

    def test_a_slow_answer_misses_its_deadline(
        self, client: BlockingMetadataClient, service: FakeMeta
    ) -> None:
        service.read_delay_seconds = 0.5
        from kvcm_platform.client import calls

        with pytest.raises(TransportError, match="DEADLINE_EXCEEDED"):
            client.run(calls.get_cache_location("qwen", [1]), timeout_seconds=0.1)

    def test_nobody_listens(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            with (
                BlockingMetadataClient(Connection(f"127.0.0.1:{port}", timeout_seconds=1)) as client,
                pytest.raises(TransportError, match="UNAVAILABLE"),
            ):
                client.get_cluster_info()

    def test_a_client_finds_a_restarted_server_again(self, service: FakeMeta) -> None:
        with serve(service) as port:
            client = BlockingMetadataClient(Connection(f"127.0.0.1:{port}"))
            client.get_cluster_info()
        with pytest.raises(TransportError):
            client.get_cluster_info()
        with serve(service, port):
            deadline = time.monotonic() + 30
            while True:
                try:
                    client.get_cluster_info()
                    break
                except TransportError:
                    assert time.monotonic() < deadline
        client.close()


class TestAsynchronous:
    async def test_the_same_round_trip(self, endpoint: str, registration: Registration) -> None:
        async with MetadataClient(Connection(endpoint)) as client:
            await client.register_instance(registration)
            started = await client.start_write("qwen", [1, 2])
            await client.finish_write("qwen", started.session_id, 1)
            assert len(await client.get_cache_location("qwen", [1, 2])) == 1

    async def test_retries_and_refusals(
        self, endpoint: str, service: FakeMeta, registration: Registration
    ) -> None:
        async with MetadataClient(Connection(endpoint)) as client:
            service.unavailable_next = 1
            await client.register_instance(registration)
            assert service.calls["RegisterInstance"] == 2
            service.unavailable_next = 1
            with pytest.raises(TransportError):
                await client.start_write("qwen", [1])
            assert service.calls["StartWriteCache"] == 1
            with pytest.raises(KvcmError, match="INSTANCE_NOT_EXIST"):
                await client.get_instance_info("nobody")

    def test_both_clients_offer_the_same_methods(self) -> None:
        def public(cls: type) -> dict[str, list[str]]:
            return {
                name: list(inspect.signature(member).parameters)
                for base in cls.__mro__[:-1]
                for name, member in vars(base).items()
                if callable(member) and not name.startswith("_")
            }

        assert public(MetadataClient) == public(BlockingMetadataClient)
        assert public(KvClient) == public(BlockingKvClient)
        assert {"run", "close", "put_start"} <= set(public(KvClient))
