"""How benchmarks measure: CPU of the servers, rates and latencies of calls by h2load and by ourselves."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

CLIENTS = 16
"""Connections of a load, one call in flight on each: batching helps nobody."""


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used, by its CPU clock (clock_getcpuclockid(3))."""
    return time.clock_gettime(~pid << 3 | 2)


@dataclass(frozen=True, slots=True)
class Load:
    """One measured load. CPU in us a call by process, medians over rounds; latencies of all calls."""

    calls: int
    cpu_us: Mapping[str, float]
    calls_per_second: float
    p50_ms: float
    p99_ms: float

    @property
    def total_us(self) -> float:
        return sum(self.cpu_us.values())


def _load(rounds: Sequence[tuple[int, float, Mapping[str, float]]], latencies_ms: list[float]) -> Load:
    latencies_ms.sort()
    return Load(
        calls=sum(calls for calls, _, _ in rounds),
        cpu_us={
            name: statistics.median(cpu[name] / calls * 1e6 for calls, _, cpu in rounds)
            for name in rounds[0][2]
        },
        calls_per_second=statistics.median(calls / seconds for calls, seconds, _ in rounds),
        p50_ms=latencies_ms[len(latencies_ms) // 2],
        p99_ms=latencies_ms[int(len(latencies_ms) * 0.99)],
    )


def measure(
    call: Callable[[], object],
    pids: Mapping[str, int],
    *,
    calls: int,
    rounds: int = 3,
    warm_up: bool = True,
    in_flight: int = 1,
) -> Load:
    """Makes `calls` calls in each round, `in_flight` at a time."""
    latencies: list[float] = []

    def work(_: int) -> None:
        for _ in range(calls // in_flight):
            began = time.perf_counter()
            call()
            latencies.append((time.perf_counter() - began) * 1000)

    for _ in range(max(3, calls // 20) if warm_up else 0):
        call()
    found = []
    with ThreadPoolExecutor(in_flight) as pool:
        for _ in range(rounds):
            before = {name: cpu_seconds(pid) for name, pid in pids.items()}
            started = time.perf_counter()
            if in_flight == 1:
                work(0)
            else:
                list(pool.map(work, range(in_flight)))
            seconds = time.perf_counter() - started
            used = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()}
            found.append((calls // in_flight * in_flight, seconds, used))
    return _load(found, latencies)


@dataclass(frozen=True, slots=True)
class Calls:
    """A request that h2load repeats."""

    path: str
    message: bytes
    count: int
    """Calls a round."""


def h2load(
    addresses: Sequence[str], calls: Calls, pids: Mapping[str, int], folder: Path, *, rounds: int = 5
) -> Load:
    """The same request from 16 connections, one call in flight each; a round for warming up goes first."""
    body, log = folder / "h2load.body", folder / "h2load.log"
    body.write_bytes(b"\0" + len(calls.message).to_bytes(4, "big") + calls.message)
    found, latencies = [], []
    for number in range(rounds + 1):
        log.unlink(missing_ok=True)
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        began = time.perf_counter()
        count = calls.count if number else max(CLIENTS, calls.count // 4)
        urls = [f"http://{address}{calls.path}" for address in addresses]
        run = subprocess.run(
            [
                *("h2load", "-n", str(count), "-c", str(CLIENTS), "-m", "1", "-d", str(body)),
                *("-H", "content-type: application/grpc", "-H", "te: trailers", f"--log-file={log}", *urls),
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        )
        seconds = time.perf_counter() - began
        assert f"{count} succeeded, 0 failed" in run.stdout, run.stdout
        if number:
            used = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()}
            found.append((count, seconds, used))
            latencies += [int(line.split("\t")[2]) / 1000 for line in log.read_text().splitlines()]
    return _load(found, latencies)
