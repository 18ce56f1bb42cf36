"""The real process behind real clients: answers of all sizes, and its end under load."""

from __future__ import annotations

import asyncio
import signal
import threading
from pathlib import Path

import grpc
import pytest

from kvcm_platform.index import registry
from kvcm_platform.pb import meta_service_pb2 as pb
from kvcm_platform.pb import meta_service_pb2_grpc as pb_grpc
from tests.grpc.test_meta_service import code, locate
from tests.support.data_plane import group, instance, storage
from tests.support.metadata_process import metadata_process

from .waiting import until

MOST = 8192
FIRST = 2_000_000_000
SIZES = (1, 2, 63, 64, 512, 4096, MOST)
OPTIONS = [("grpc.max_receive_message_length", -1)]


@pytest.fixture
def blocks(stub) -> list[int]:
    """Keys of a chain whose blocks are all served."""
    keys = [FIRST + number for number in range(MOST)]
    for stop in range(1024, MOST + 1, 1024):
        start = pb.StartWriteCacheRequest(instance_id="model-a", block_keys=keys[:stop])
        started = stub.StartWriteCache(start)
        done = pb.BlockMask(offset=len(started.locations))
        finish = pb.FinishWriteCacheRequest(
            instance_id="model-a", write_session_id=started.write_session_id, success_blocks=done
        )
        assert code(stub.FinishWriteCache(finish)) == "OK"
    return keys


def test_sizes_with_a_blocking_and_an_asynchronous_client(process, blocks):
    with grpc.insecure_channel(process.rpc, options=OPTIONS) as channel:
        stub = pb_grpc.MetaServiceStub(channel)
        answers = {size: locate(stub, blocks[:size]) for size in SIZES}
        assert {size: len(answer.locations) for size, answer in answers.items()} == {n: n for n in SIZES}
        assert code(locate(stub, [])) == "INVALID_ARGUMENT"

    async def run() -> None:
        async with grpc.aio.insecure_channel(process.rpc, options=OPTIONS) as channel:
            stub = pb_grpc.MetaServiceStub(channel)
            for size in SIZES:
                request = pb.GetCacheLocationRequest(
                    trace_id="t", instance_id="model-a", query_type=2, block_keys=blocks[:size]
                )
                found = await asyncio.gather(*(stub.GetCacheLocation(request, timeout=20) for _ in range(10)))
                assert all(answer.locations == answers[size].locations for answer in found)

    asyncio.run(run())


def listeners(port: int) -> int:
    """How many sockets of this host listen on a port (state 0A of /proc/net/tcp)."""
    rows = Path("/proc/net/tcp").read_text().splitlines()
    return sum(row.split()[1].endswith(f":{port:04X}") and row.split()[3] == "0A" for row in rows)


def test_a_process_that_ends_hands_its_clients_over(server, tmp_path: Path, keys):
    """Two processes share the port; one gets SIGTERM under load; not one call fails."""
    valkey = server[1]
    registry.publish(valkey.client(), version=1, changed=[storage(tmp_path / "nfs"), group(), instance()])
    stopped = threading.Event()
    failures: list[grpc.RpcError] = []
    calls = [0] * 8

    def keep_calling(number: int, address: str) -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(address, options=options) as channel:
            stub = pb_grpc.MetaServiceStub(channel)
            request = pb.GetCacheLocationRequest(instance_id="model-a", query_type=2, block_keys=keys)
            while not stopped.is_set():
                try:
                    stub.GetCacheLocation(request, timeout=30, wait_for_ready=True)
                    calls[number] += 1
                except grpc.RpcError as error:
                    failures.append(error)

    with metadata_process(valkey.url, tmp_path) as first:
        ports = {"KVCM_META_RPC_PORT": str(first.rpc_port), "KVCM_META_HTTP_PORT": str(first.http_port)}
        with metadata_process(valkey.url, tmp_path, **ports) as second:
            until(lambda: listeners(first.rpc_port) == 2, 20)
            threads = [threading.Thread(target=keep_calling, args=(number, first.rpc)) for number in range(8)]
            for thread in threads:
                thread.start()
            until(lambda: all(calls))
            second.process.send_signal(signal.SIGTERM)
            assert second.process.wait(30) == 0
            middle = list(calls)
            until(lambda: bool(failures) or all(n > m for m, n in zip(middle, calls, strict=True)))
            stopped.set()
            for thread in threads:
                thread.join(40)
    assert failures == []
