"""GetCacheLocation, all hit, a million blocks in the index: both transports, cold and warm, and baselines."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from statistics import fmean

import grpc
import pytest

from kvcm_platform.index import keyspace, request_switches
from kvcm_platform.index.request_switches import CaptureSwitch, SampleSwitch
from kvcm_platform.pb import meta_service_pb2 as pb
from tests.support.data_plane import instance
from tests.support.platform_process import free_ports

from .cpp_server import built, cpp_server
from .measure import Calls, h2load, measure
from .million import (
    BLOCKS,
    FIRST_KEY,
    INSTANCE,
    OPTIONS,
    PROMPTS,
    SERVICE,
    SIZES,
    Platform,
    match_of,
    part,
    platform,
)
from .removal import latencies_us, removing
from .report import Report

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

MATCH = f"{SERVICE}GetCacheLocation"
HEALTH = "/grpc.health.v1.Health/Check"
CALLS = {1: 8000, 64: 8000, 512: 4000, 4096: 1200}
FAST_US = {1: 25, 64: 40, 512: 90, 4096: 500}
GRPCIO_RATIO = 1.4
GRPCIO_4096_US = 1000
BYTES_A_BLOCK = 240
MATCHES = "GetCacheLocation, all hit, 1 M blocks"


@pytest.fixture(scope="module")
def million() -> Iterator[Platform]:
    with platform() as running, ExitStack() as stack:
        stack.enter_context(running.process("writer", KVCM_TRANSPORT="fast"))
        running.fill("writer", range(FIRST_KEY, FIRST_KEY + BLOCKS))
        for name in ("fast", "grpcio"):
            stack.enter_context(running.process(name, KVCM_TRANSPORT=name))
        yield running


@pytest.fixture(scope="module")
def empty() -> Iterator[tuple[int, int]]:
    """(process id, port) of a grpcio server whose handlers do nothing."""
    (port,) = free_ports(1)
    process = subprocess.Popen([sys.executable, "-m", "tests.bench.empty_grpcio", str(port)])
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        grpc.channel_ready_future(channel).result(30)
    yield process.pid, port
    process.kill()
    process.wait(10)


def test_memory(million: Platform, report: Report) -> None:
    """Everything of the instance in Redis but its event stream, without sampling."""
    client = million.valkey.client()
    base = keyspace.instance(instance().number, 0)
    sizes = {
        name.removeprefix(base) or "usage": (client.memory_usage(name, samples=0) or 0) / BLOCKS
        for name in keyspace.all_of_instance(base)
        if name != keyspace.events(base)
    }
    with million.stub("fast") as stub:
        answer = stub.GetCacheLocation(pb.GetCacheLocationRequest.FromString(match_of(part(0, 64))))
    uris = [location.location_specs[0].uri for location in answer.locations]
    details = {name: size for name, size in sizes.items() if size > 1} | {"uri_bytes": fmean(map(len, uris))}
    report.add("Memory", "Redis, streams excluded", sum(sizes.values()), "B/block", BYTES_A_BLOCK, **details)
    client.close()


@pytest.mark.parametrize("name", ["fast", "grpcio"])
def test_prompts_in_turn(million: Platform, report: Report, name: str) -> None:
    """One grpcio client asks for every prompt once, cold, then again and again, from a large cache."""
    pids = {"metadata": million.pid(name), "valkey": million.valkey.process.pid}
    for size in SIZES:
        requests = [match_of(part(prompt, size)) for prompt in range(PROMPTS)]
        with grpc.insecure_channel(million.processes[name].rpc, options=OPTIONS) as channel:
            match = channel.unary_unary(MATCH)
            for kind, rounds in (("cold", 1), ("warm", 3)):
                turn = iter(requests * rounds)

                def call(match=match, turn=turn, least=100 * size) -> None:
                    assert len(match(next(turn))) > least

                load = measure(call, pids, calls=PROMPTS, rounds=rounds, warm_up=False)
                report.add_load(
                    f"{MATCHES}, {PROMPTS} prompts in turn, one client", f"{name}, N = {size}, {kind}", load
                )


@pytest.mark.parametrize("size", SIZES)
def test_warm(million: Platform, report: Report, empty: tuple[int, int], size: int) -> None:
    part_name = f"{MATCHES}, warm, h2load 16 x 1"
    calls = Calls(MATCH, match_of(part(0, size)), CALLS[size])
    found = {
        name: h2load([million.processes[name].rpc], calls, {name: million.pid(name)}, million.folder)
        for name in ("fast", "grpcio")
    }
    address = f"127.0.0.1:{empty[1]}"
    bare = {
        method: h2load(
            [address],
            Calls(f"/bench/{method}", calls.message, calls.count),
            {"empty": empty[0]},
            million.folder,
        )
        for method in ("Empty", "Same")
    }
    report.add_load(part_name, f"fast, N = {size}", found["fast"], FAST_US[size])
    if size == 4096:
        report.add_load(part_name, f"grpcio, N = {size}", found["grpcio"], GRPCIO_4096_US)
    else:
        report.add_load(
            part_name, f"grpcio, N = {size}", found["grpcio"], bare["Same"].total_us * GRPCIO_RATIO
        )
    report.add_load(part_name, f"empty grpcio handler, {size} keys, no answer", bare["Empty"])
    report.add_load(part_name, f"empty grpcio handler, answer of N = {size}", bare["Same"])


@pytest.mark.parametrize("size", [64, 512])
def test_watched(million: Platform, report: Report, size: int) -> None:
    """The same with somebody who watches: the online estimate at some rates, a capture, then nobody."""
    calls = Calls(MATCH, match_of(part(0, size)), CALLS[size])
    client, until = million.valkey.client(), round((time.time() + 600) * 1000)
    address, pids = million.processes["fast"].rpc, {"fast": million.pid("fast")}
    for name in ("nobody", "estimate, k = 6", "estimate, k = 0", "capture", "nobody again"):
        client.delete(keyspace.REQUEST_SWITCHES)
        if name.startswith("estimate"):
            request_switches.set_samples(client, {1: SampleSwitch(int(name[-1]), until)})
        if name == "capture":
            request_switches.set_capture(client, "bench", CaptureSwitch(frozenset({INSTANCE}), until))
        time.sleep(1)  # processes look at the switches twice a second
        load = h2load([address], calls, pids, million.folder)
        report.add_load("GetCacheLocation, all hit, watched, fast", f"N = {size}, {name}", load)
    streams = (keyspace.sampled_requests(1), keyspace.captured_requests("bench"))
    assert all(client.xlen(name) for name in streams)
    client.delete(keyspace.REQUEST_SWITCHES, *streams)
    client.close()


def test_cpp_baseline(million: Platform, report: Report) -> None:
    program = built(report)
    if program is None:
        return
    part_name = f"{MATCHES}, warm, h2load 16 x 1"
    with cpp_server(program, FIRST_KEY, BLOCKS) as (pid, port):
        for size in SIZES:
            calls = Calls(MATCH, match_of(part(0, size)), CALLS[size])
            load = h2load([f"127.0.0.1:{port}"], calls, {"c++": pid}, million.folder)
            report.add_load(part_name, f"plain C++ gRPC server, N = {size}", load)
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel:
            match = channel.unary_unary(MATCH)
            for size in SIZES:
                turn = iter([match_of(part(prompt, size)) for prompt in range(PROMPTS)] * 3)
                load = measure(
                    lambda turn=turn: match(next(turn)), {"c++": pid}, calls=PROMPTS, warm_up=False
                )
                report.add_load(
                    f"{MATCHES}, {PROMPTS} prompts in turn, one client",
                    f"plain C++ gRPC server, N = {size}",
                    load,
                )


def test_the_transport_alone(million: Platform, report: Report) -> None:
    for name in ("fast", "grpcio"):
        load = h2load(
            [million.processes[name].rpc], Calls(HEALTH, b"", 6000), {name: million.pid(name)}, million.folder
        )
        report.add_load("A health check: the transport alone", name, load)


def test_two_processes(million: Platform, report: Report) -> None:
    """Two metadata processes on one port, as the platform runs them, against one of them alone."""
    calls = Calls(MATCH, match_of(part(0, 64)), 12_000)
    one = million.processes["fast"]
    alone = h2load([one.rpc], calls, {"fast": million.pid("fast")}, million.folder)
    ports = {"KVCM_META_RPC_PORT": str(one.rpc_port), "KVCM_META_HTTP_PORT": str(one.http_port)}
    with million.process("second", KVCM_TRANSPORT="fast", **ports):
        pids = {"first": million.pid("fast"), "second": million.pid("second")}
        both = h2load([one.rpc], calls, pids, million.folder)
    name = "One and two metadata processes, fast, N = 64"
    report.add(name, "calls/s/core of one", 1e6 / alone.total_us, "calls/s/core", 15_000, is_floor=True)
    report.add(
        name,
        "CPU a call of two to that of one",
        both.total_us / alone.total_us,
        "x",
        1.3,
        one_us=alone.total_us,
        two_us=both.total_us,
        **{f"{key}_us": value for key, value in both.cpu_us.items()},
    )


def test_latency_while_blocks_are_removed(million: Platform, report: Report) -> None:
    size = 64
    idle = latencies_us(million.processes["fast"].rpc, match_of, part(0, size), seconds=6)
    with removing(million.valkey.url, INSTANCE, part(PROMPTS // 3, 1).start, FIRST_KEY + BLOCKS) as result:
        busy = latencies_us(million.processes["fast"].rpc, match_of, part(0, size), seconds=6)
    removed = result()
    name = "Latency of a match (N = 64, inside the server) while blocks are removed at full speed"
    at = lambda values, q: values[int(len(values) * q)]  # noqa: E731
    report.add(
        name,
        "p99 idle",
        at(idle.inside, 0.99),
        "us",
        p50=at(idle.inside, 0.5),
        client_p99=at(idle.outside, 0.99),
    )
    report.add(
        name,
        "p99 while removing",
        at(busy.inside, 0.99),
        "us",
        p50=at(busy.inside, 0.5),
        client_p99=at(busy.outside, 0.99),
    )
    report.add(
        name,
        "p99 removing to idle",
        at(busy.inside, 0.99) / at(idle.inside, 0.99),
        "x",
        3,
        removed_per_s=removed.blocks / removed.seconds,
        deleted_per_s=removed.deleted / removed.seconds,
    )
