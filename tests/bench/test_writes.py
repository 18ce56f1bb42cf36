"""Write cycles, token ids over gRPC and HTTP: one client with one call in flight, fresh keys or prompts."""

from __future__ import annotations

import http.client
import itertools
import json
import random
from collections.abc import Iterator
from contextlib import ExitStack

import grpc
import pytest

from kvcm_platform.core import native
from kvcm_platform.core.pool_layout import SLAB_BYTES
from kvcm_platform.index import registry
from kvcm_platform.pb import meta_service_pb2 as pb
from tests.support.data_plane import group, instance
from tests.support.pools import pool, segment

from .measure import measure
from .million import INSTANCE, OPTIONS, SERVICE, Platform, platform, write
from .report import Report

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

IN_FLIGHT = 8
"""Cycles at a time, as the reference was measured (MEASUREMENTS.md G)."""
WRITE_US_A_BLOCK = {64: 14, 512: 8}
TOKENS = 32_768
BLOCK_TOKENS = 16
WARM_US, COLD_US, COLD_COMPILED_US, HTTP_US = 1000, 12_000, 2000, 15_000


POOLED = "pooled"
"""An instance whose blocks of 1 MiB go to a memory pool of 4 TiB; nobody writes their bytes."""


@pytest.fixture(scope="module")
def served() -> Iterator[Platform]:
    with platform() as running, ExitStack() as stack:
        client = running.valkey.client()
        entries = (
            pool(segment(slabs=(4 << 40) // SLAB_BYTES)),
            group(name="memory", number=2, storage_candidates=("pool_01",)),
            instance(POOLED, 0xFED, specs=[("tp0", 1 << 20)], group="memory", group_number=2),
        )
        registry.publish(client, version=2, changed=entries)
        client.close()
        for name in ("fast", "grpcio"):
            stack.enter_context(running.process(name, KVCM_TRANSPORT=name))
        yield running


def pids(served: Platform, name: str) -> dict[str, int]:
    return {"metadata": served.pid(name), "valkey": served.valkey.process.pid}


@pytest.mark.parametrize("name", ["fast", "grpcio"])
@pytest.mark.parametrize("in_flight", [1, IN_FLIGHT])
@pytest.mark.parametrize(("blocks", "calls"), [(1, 400), (64, 320), (512, 80), (4096, 16)])
def test_start_and_finish(
    served: Platform, report: Report, name: str, in_flight: int, blocks: int, calls: int
) -> None:
    """Prompts that grow: each cycle writes `blocks` fresh blocks."""
    fresh = itertools.count((blocks << 40) + (len(name) << 56) + (in_flight << 52), blocks)

    def cycle() -> None:
        start = next(fresh)
        write(stub, range(start, start + blocks))

    with served.stub(name) as stub:
        load = measure(cycle, pids(served, name), calls=calls, rounds=5, in_flight=in_flight)
    is_judged = name == "fast" and in_flight == IN_FLIGHT
    target = WRITE_US_A_BLOCK.get(blocks) if is_judged else None
    report.add(
        "StartWrite + FinishWrite, fresh blocks, Python and Valkey together",
        f"{name}, N = {blocks}, {in_flight} in flight",
        load.total_us / blocks,
        "us/block",
        target,
        **{f"{process}_us": value / blocks for process, value in load.cpu_us.items()},
        cycles_per_s=load.calls_per_second,
        p50_ms=load.p50_ms,
        p99_ms=load.p99_ms,
    )


@pytest.mark.parametrize("in_flight", [1, IN_FLIGHT])
@pytest.mark.parametrize(("blocks", "calls"), [(1, 400), (64, 320), (512, 80), (4096, 16)])
def test_start_and_finish_on_a_pool(
    served: Platform, report: Report, in_flight: int, blocks: int, calls: int
) -> None:
    """The same with memory taken for each block; none is given back."""
    fresh = itertools.count((blocks << 40) + (in_flight << 52), blocks)

    def cycle() -> None:
        start = next(fresh)
        write(stub, range(start, start + blocks), POOLED)

    with served.stub("fast") as stub:
        load = measure(cycle, pids(served, "fast"), calls=calls, rounds=5, in_flight=in_flight)
    report.add(
        "StartWrite + FinishWrite on a memory pool, fresh blocks, Python and Valkey together",
        f"fast, N = {blocks}, {in_flight} in flight",
        load.total_us / blocks,
        "us/block",
        None,
        **{f"{process}_us": value / blocks for process, value in load.cpu_us.items()},
        cycles_per_s=load.calls_per_second,
        p50_ms=load.p50_ms,
        p99_ms=load.p99_ms,
    )


def prompt() -> list[int]:
    return [random.randrange(150_000) for _ in range(TOKENS)]  # noqa: S311


def match_of(tokens: list[int]) -> bytes:
    request = pb.GetCacheLocationRequest(
        trace_id="bench", instance_id=INSTANCE, query_type=pb.QT_PREFIX_MATCH, token_ids=tokens
    )
    return bytes(request.SerializeToString())


def test_token_ids_over_grpc(served: Platform, report: Report) -> None:
    """Prompts that no block is known of: what is measured is the way from tokens to keys."""
    part = f"token_ids, {TOKENS:,} tokens, all miss"
    cold = COLD_COMPILED_US if native.load_built() else COLD_US
    requests = [match_of(prompt()) for _ in range(60)]
    with grpc.insecure_channel(served.processes["fast"].rpc, options=OPTIONS) as channel:
        match = channel.unary_unary(f"{SERVICE}GetCacheLocation")
        turn = iter(requests)
        load = measure(
            lambda: match(next(turn)), {"fast": served.pid("fast")}, calls=20, rounds=3, warm_up=False
        )
        report.add_load(part, "gRPC, each prompt for the first time", load, cold)
        load = measure(lambda: match(requests[0]), {"fast": served.pid("fast")}, calls=40, rounds=3)
        report.add_load(part, "gRPC, the same prompt again", load, WARM_US)


def test_token_ids_over_http(served: Platform, report: Report) -> None:
    process = served.processes["fast"]
    bodies = [
        json.dumps({"instance_id": INSTANCE, "query_type": "QT_PREFIX_MATCH", "token_ids": prompt()})
        for _ in range(40)
    ]
    turn = iter(bodies)
    connection = http.client.HTTPConnection("127.0.0.1", process.http_port, timeout=30)

    def call() -> None:
        connection.request("POST", "/api/getCacheLocation", next(turn))
        assert json.load(connection.getresponse())["header"]["status"]["code"] == "OK"

    load = measure(call, {"fast": served.pid("fast")}, calls=10, rounds=3, warm_up=False)
    part = f"token_ids, {TOKENS:,} tokens, all miss"
    report.add_load(part, "HTTP, each prompt for the first time", load, HTTP_US)
    connection.close()


@pytest.mark.parametrize("blocks", [1, 64, 512, 4096])
def test_matches_over_http(served: Platform, report: Report, blocks: int) -> None:
    keys = list(range(7 << 50, (7 << 50) + blocks))
    with served.stub("fast") as stub:
        missing = stub.StartWriteCache(pb.StartWriteCacheRequest(instance_id=INSTANCE, block_keys=keys))
        done = pb.BlockMask(offset=len(missing.locations))
        stub.FinishWriteCache(
            pb.FinishWriteCacheRequest(
                instance_id=INSTANCE, write_session_id=missing.write_session_id, success_blocks=done
            )
        )
    process = served.processes["fast"]
    body = json.dumps({"instance_id": INSTANCE, "query_type": "QT_PREFIX_MATCH", "block_keys": keys})
    connection = http.client.HTTPConnection("127.0.0.1", process.http_port, timeout=30)

    def call() -> None:
        connection.request("POST", "/api/getCacheLocation", body)
        assert len(connection.getresponse().read()) > 60 * blocks

    load = measure(call, {"fast": served.pid("fast")}, calls=max(20, 400 // blocks), rounds=3)
    report.add_load("GetCacheLocation over HTTP, all hit, warm", f"N = {blocks}", load)
    connection.close()
