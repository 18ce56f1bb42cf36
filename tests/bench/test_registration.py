"""Registrations against the whole platform: a thousand engines at once, known and new."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence

import grpc
import pytest

from kvcm_platform.pb import meta_service_pb2 as pb
from kvcm_platform.pb.meta_service_pb2_grpc import MetaServiceStub
from tests.support.platform_process import PlatformProcess, short_data_dir

from .measure import measure
from .report import Report

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

ENGINES = 1000
CHANNELS = 20
PART = "RegisterInstance, whole platform"
NEW_MS, KNOWN_MS = 100, 1


def request(name: str) -> pb.RegisterInstanceRequest:
    return pb.RegisterInstanceRequest(
        trace_id="bench",
        instance_group="default",
        instance_id=name,
        block_size=16,
        location_spec_infos=[pb.LocationSpecInfo(name=f"tp{rank}", size=1 << 20) for rank in range(8)],
        model_deployment=pb.ModelDeployment(model_name="Qwen3", dtype="fp8", tp_size=8),
    )


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with short_data_dir() as folder:
        process = PlatformProcess(["manage.py", "up"], folder)
        try:
            process.wait_until_ready()
            yield f"127.0.0.1:{process.port('KVCM_META_RPC_PORT')}"
            process.stop()
        finally:
            process.end()


async def at_once(address: str, requests: Sequence[pb.RegisterInstanceRequest]) -> tuple[list[float], float]:
    """Latencies in ms, sorted, and seconds for all."""
    own = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(address, options=own) for _ in range(CHANNELS)]
    stubs = [MetaServiceStub(channel) for channel in channels]
    await asyncio.gather(*(channel.channel_ready() for channel in channels))

    async def register(number: int, message: pb.RegisterInstanceRequest) -> float:
        began = time.perf_counter()
        answer = await stubs[number % CHANNELS].RegisterInstance(message, timeout=60)
        assert answer.header.status.code == pb.OK, answer.header.status
        return (time.perf_counter() - began) * 1000

    began = time.perf_counter()
    found = await asyncio.gather(*(register(number, message) for number, message in enumerate(requests)))
    seconds = time.perf_counter() - began
    await asyncio.gather(*(channel.close() for channel in channels))
    return sorted(found), seconds


def test_new_ones_one_by_one(address: str, report: Report) -> None:
    with grpc.insecure_channel(address) as channel:
        stub = MetaServiceStub(channel)
        latencies = []
        for number in range(40):
            began = time.perf_counter()
            answer = stub.RegisterInstance(request(f"single-{number}"), timeout=10)
            latencies.append((time.perf_counter() - began) * 1000)
            assert answer.header.status.code == pb.OK, answer.header.status
    latencies.sort()
    report.add(PART, "new, one by one, p50", statistics.median(latencies), "ms", NEW_MS, p99_ms=latencies[-1])


def test_known_ones_one_by_one(address: str, report: Report) -> None:
    with grpc.insecure_channel(address) as channel:
        stub = MetaServiceStub(channel)
        stub.RegisterInstance(request("known"), timeout=10)
        load = measure(lambda: stub.RegisterInstance(request("known"), timeout=10), {}, calls=300)
    report.add(PART, "known and identical, one by one, p50", load.p50_ms, "ms", KNOWN_MS, p99_ms=load.p99_ms)


def test_a_thousand_at_once(address: str, report: Report) -> None:
    for name in (f"{ENGINES} of one new instance at once", f"{ENGINES} of one known instance at once"):
        found, seconds = asyncio.run(at_once(address, [request("shared")] * ENGINES))
        report.add(
            PART,
            name,
            seconds * 1000,
            "ms for all",
            p50_ms=found[len(found) // 2],
            p99_ms=found[int(len(found) * 0.99)],
            ms_each=seconds * 1000 / ENGINES,
        )
