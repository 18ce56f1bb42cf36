"""What calls cost the servers: one metadata process, one Valkey, one client with one call in flight.

Prints; asserts only that the calls did their work. Compare runs of one machine, never of two.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import grpc
import pytest

from kvcm_platform.index import registry
from kvcm_platform.pb import meta_service_pb2 as pb
from kvcm_platform.pb.meta_service_pb2_grpc import MetaServiceStub
from tests.support.data_plane import group, instance, storage
from tests.support.metadata_process import metadata_process
from tests.support.valkey import valkey_server

from .measure import measure

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

INSTANCE = "model-a"
LARGEST = 4096


@dataclass(frozen=True)
class Server:
    stub: MetaServiceStub
    pids: dict[str, int]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("bench")
    options = [("grpc.max_receive_message_length", 64 << 20)]
    with valkey_server() as valkey:
        client = valkey.client()
        registry.publish(client, version=1, changed=(storage(root / "nfs"), group(), instance()))
        with (
            metadata_process(valkey.url, root) as process,
            grpc.insecure_channel(process.rpc, options=options) as channel,
        ):
            pids = {"metadata": process.process.pid, "valkey": valkey.process.pid}
            yield Server(MetaServiceStub(channel), pids)
        client.close()


def write(stub: MetaServiceStub, keys: list[int]) -> None:
    started = stub.StartWriteCache(
        pb.StartWriteCacheRequest(instance_id=INSTANCE, block_keys=keys, write_timeout_seconds=60)
    )
    finished = stub.FinishWriteCache(
        pb.FinishWriteCacheRequest(
            instance_id=INSTANCE,
            write_session_id=started.write_session_id,
            success_blocks=pb.BlockMask(offset=len(started.locations)),
        )
    )
    assert finished.header.status.code == pb.OK, finished


@pytest.mark.parametrize(("blocks", "calls"), [(1, 1000), (64, 1000), (512, 400), (LARGEST, 60)])
def test_get_cache_location_all_hit(server: Server, blocks: int, calls: int) -> None:
    keys = [10_000_000 + number for number in range(LARGEST)]
    write(server.stub, keys)
    request = pb.GetCacheLocationRequest(
        instance_id=INSTANCE, query_type=pb.QT_PREFIX_MATCH, block_keys=keys[:blocks]
    )

    def call() -> None:
        assert len(server.stub.GetCacheLocation(request).locations) == blocks

    print()
    print(measure(f"GetCacheLocation, {blocks} keys, all hit", call, server.pids, calls=calls).line())


@pytest.mark.parametrize(("blocks", "calls"), [(64, 200), (512, 60)])
def test_start_and_finish(server: Server, blocks: int, calls: int) -> None:
    fresh = itertools.count(1_000_000_000 + blocks * 10_000_000)

    def call() -> None:
        write(server.stub, list(itertools.islice(fresh, blocks)))

    result = measure(f"start + finish, {blocks} fresh keys", call, server.pids, calls=calls)
    print(result.line())
    print(f"{'':<34} {sum(result.cpu_us.values()) / blocks:.1f} us a block, Python and Valkey together")
