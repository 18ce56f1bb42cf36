"""How benchmarks measure: CPU of the server's processes from /proc, medians over rounds, one line each."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time that the process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


@dataclass(frozen=True, slots=True)
class Result:
    """Medians over the rounds. CPU in microseconds a call, by process; latencies in milliseconds."""

    name: str
    calls: int
    cpu_us: dict[str, float]
    p50_ms: float
    p99_ms: float

    def line(self) -> str:
        cpu = "  ".join(f"{process} {value:8.0f} us/call" for process, value in self.cpu_us.items())
        return f"{self.name:<34} {cpu}  p50 {self.p50_ms:7.2f} ms  p99 {self.p99_ms:7.2f} ms"


def measure(
    name: str, call: Callable[[], object], pids: dict[str, int], *, calls: int, rounds: int = 3
) -> Result:
    """Make `calls` calls in each round, one after the other, after a warm-up."""
    for _ in range(max(3, calls // 20)):
        call()
    cpu: dict[str, list[float]] = {process: [] for process in pids}
    latencies: list[float] = []
    for _ in range(rounds):
        before = {process: cpu_seconds(pid) for process, pid in pids.items()}
        for _ in range(calls):
            began = time.perf_counter()
            call()
            latencies.append((time.perf_counter() - began) * 1000)
        for process, pid in pids.items():
            cpu[process].append((cpu_seconds(pid) - before[process]) / calls * 1e6)
    latencies.sort()
    return Result(
        name=name,
        calls=calls * rounds,
        cpu_us={process: statistics.median(values) for process, values in cpu.items()},
        p50_ms=latencies[len(latencies) // 2],
        p99_ms=latencies[int(len(latencies) * 0.99)],
    )
