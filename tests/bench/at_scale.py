"""`python -m tests.bench.at_scale TRACE NAME [ROUNDS]`: one computation on a trace, alone in a process.

Prints JSON: `cpu_seconds` of each round (the compiled code is warm, the trace's files are not mapped yet in
the first), and `peak_bytes` of memory of its own, at the worst moment; pages of the trace's files are the
kernel's to take back and do not count.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from kvcm_platform.optimizer import curves
from kvcm_platform.optimizer.curve import Touch, Unit
from kvcm_platform.optimizer.generate import Shape, generate
from kvcm_platform.optimizer.policies import POLICIES, simulate
from kvcm_platform.optimizer.trace import Trace
from kvcm_platform.optimizer.traces import open_trace

REQUESTS = 3_930_000
"""100 M accesses."""
SHAPE = Shape(instances=4, system_prompts=5_000)
SEED = 1
ROUNDS = 3


def capacities(trace: Trace, count: int = 20) -> list[int]:
    return [int(size) for size in np.geomspace(1000, trace.distinct_blocks, count)]


def _one_capacity(policy: str, trace: Trace) -> object:
    """A tenth of the distinct blocks; and the replay without a limit that every simulation has besides."""
    return simulate(trace, policy, [trace.distinct_blocks // 10])


COMPUTATIONS: dict[str, Callable[[Trace], object]] = {
    "curve": curves.lru_curve,
    "curve_20": lambda trace: curves.lru_curve(trace, capacities(trace)),
    "curve_root": lambda trace: curves.lru_curve(trace, touch=Touch.ROOT),
    "curve_bytes": lambda trace: curves.lru_curve(trace, unit=Unit.BYTES),
    "analysis": curves.lru_analysis,
    "ttl": curves.ttl_curve,
    "belady_20": lambda trace: curves.belady_curve(trace, capacities(trace)),
    "sampled": lambda trace: curves.sampled_curve(trace, seeds=[1]),
    **{f"policy_{name}": partial(_one_capacity, name) for name in POLICIES},
}


def own_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon in /proc/self/status")


class PeakMemory:
    """The most memory of its own that this process has had since `start`, looked at each 5 ms."""

    def __init__(self) -> None:
        self._before = own_bytes()
        self._most = self._before
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._ended.wait(0.005):
            self._most = max(self._most, own_bytes())

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def added(self) -> int:
        return self._most - self._before


def main() -> None:
    compute = COMPUTATIONS[sys.argv[2]]
    compute(generate(2_000, shape=SHAPE))
    trace = open_trace(Path(sys.argv[1]))
    cpu_seconds = []
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else ROUNDS
    with PeakMemory() as memory:
        for _ in range(rounds):
            began = time.thread_time()
            compute(trace)
            cpu_seconds.append(time.thread_time() - began)
    print(json.dumps({"cpu_seconds": cpu_seconds, "peak_bytes": memory.added}))


if __name__ == "__main__":
    main()
