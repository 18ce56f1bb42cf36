"""What a call costs over grpcio and over the fast endpoint, side by side: h2load, search cache warm.

16 connections of one call each give batching no help; 2 connections of 8 streams show what it can do.
"""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from kvcm_platform.index import registry
from kvcm_platform.pb import meta_service_pb2 as pb
from kvcm_platform.pb.meta_service_pb2_grpc import MetaServiceStub
from tests.support.data_plane import group, instance, storage
from tests.support.metadata_process import MetadataProcess, metadata_process
from tests.support.valkey import valkey_server

from .measure import cpu_seconds

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

LARGEST = 4096
KEYS = [20_000_000 + number for number in range(LARGEST)]
ROUNDS = 5
CALLS = {0: 6000, 1: 6000, 64: 6000, 512: 3000, LARGEST: 1000}
LOCATION = "/kv_cache_manager.proto.meta.MetaService/GetCacheLocation"
HEALTH = "/grpc.health.v1.Health/Check"


@dataclass(frozen=True)
class Transports:
    processes: dict[str, MetadataProcess]
    folder: Path


@pytest.fixture(scope="module")
def transports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transports]:
    root = tmp_path_factory.mktemp("transports")
    with valkey_server() as valkey:
        client = valkey.client()
        registry.publish(client, version=1, changed=(storage(root / "nfs"), group(), instance()))
        with (
            metadata_process(valkey.url, root, KVCM_TRANSPORT="grpcio") as grpcio,
            metadata_process(valkey.url, root, KVCM_TRANSPORT="fast") as fast,
        ):
            _write(grpcio)
            yield Transports({"grpcio": grpcio, "fast": fast}, root)
        client.close()


def _write(process: MetadataProcess) -> None:
    with grpc.insecure_channel(process.rpc) as channel:
        stub = MetaServiceStub(channel)
        for stop in range(512, LARGEST + 1, 512):
            start = pb.StartWriteCacheRequest(instance_id="model-a", block_keys=KEYS[:stop])
            started = stub.StartWriteCache(start)
            done = pb.BlockMask(offset=len(started.locations))
            finish = pb.FinishWriteCacheRequest(
                instance_id="model-a", write_session_id=started.write_session_id, success_blocks=done
            )
            assert stub.FinishWriteCache(finish).header.status.code == pb.OK


def _load(process: MetadataProcess, path: str, body: Path, calls: int, load: list[str]) -> float:
    """Makes the calls; CPU microseconds of the process for each."""
    headers = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
    before = cpu_seconds(process.process.pid)
    run = subprocess.run(
        ["h2load", "-n", str(calls), *load, "-d", str(body), *headers, f"http://{process.rpc}{path}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"{calls} succeeded, 0 failed" in run.stdout, run.stdout
    return (cpu_seconds(process.process.pid) - before) / calls * 1e6


@pytest.mark.parametrize(
    ("shape", "load"),
    [("16 x 1", ["-c", "16", "-m", "1"]), ("2 x 8", ["-c", "2", "-m", "8"])],
)
@pytest.mark.parametrize("blocks", [0, 1, 64, 512, LARGEST])
def test_get_cache_location(transports: Transports, blocks: int, shape: str, load: list[str]) -> None:
    """With 0 blocks it is the health check: the transport alone."""
    request = b""
    if blocks:
        request = pb.GetCacheLocationRequest(
            instance_id="model-a", query_type=pb.QT_PREFIX_MATCH, block_keys=KEYS[:blocks]
        ).SerializeToString()
    body = transports.folder / "body"
    body.write_bytes(b"\0" + len(request).to_bytes(4, "big") + request)
    path = LOCATION if blocks else HEALTH
    costs: dict[str, list[float]] = {name: [] for name in transports.processes}
    for number in range(ROUNDS + 1):
        for name, process in transports.processes.items():
            cost = _load(process, path, body, CALLS[blocks], load)
            if number:
                costs[name].append(cost)
    medians = {name: statistics.median(values) for name, values in costs.items()}
    what = f"GetCacheLocation, {blocks} keys" if blocks else "health check"
    line = "  ".join(f"{name} {value:6.0f} us/call" for name, value in medians.items())
    print(f"\n{what:<28} {shape:<7} {line}  ratio {medians['grpcio'] / medians['fast']:.1f}")
