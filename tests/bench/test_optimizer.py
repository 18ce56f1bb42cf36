"""Curves of a generated trace of 100 M accesses: speed and memory; and a sweep against the reference's."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from kvcm_platform.optimizer.curves import lru_curve, sampled_curve
from kvcm_platform.optimizer.generate import generate_into
from kvcm_platform.optimizer.policies import POLICIES, simulate
from kvcm_platform.optimizer.traces import ingest, open_trace
from tests.support.optimizer_traces import SHARED, needs_shared

from .at_scale import REQUESTS, SEED, SHAPE, capacities
from .report import REPORT, ROOT, Report

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

PART = "Curves, generated trace of 100 M accesses, one core"
SWEEP = "20 capacities, conversation trace"
REFERENCE_SECONDS = 2.76
"""The reference simulator's replays alone, lru, recorded on another machine (OPTIMIZER.md 3)."""
TARGETS = {"curve": 40, "curve_20": 40, "analysis": 15, "belady_20": 100}
"""M block accesses a second."""
NAMES = {
    "curve": "exact LRU, all capacities",
    "curve_20": "exact LRU, 20 capacities",
    "curve_root": "exact LRU, root first",
    "curve_bytes": "exact LRU, by bytes",
    "analysis": "with windows, instances, types, histograms",
    "ttl": "TTL, all times, with residency",
    "belady_20": "clairvoyant bound, 20 capacities",
    "sampled": "sampled LRU curve, one seed",
}
REPLAYS = {"belady_20": 20}
POLICY_PART = "Policies, the same trace, one capacity, one core"
POLICY_TARGETS = {"s3_fifo": 15, "sampled_lru": 2.5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the generated trace."""
    made = tmp_path_factory.mktemp("generated") / "trace"
    began = time.process_time()
    trace = generate_into(made, REQUESTS, seed=SEED, shape=SHAPE)
    REPORT.note(
        f"Generated in {time.process_time() - began:.1f} s CPU: {trace.requests:,} requests, {trace.blocks:,}"
        f" accesses, {trace.distinct_blocks:,} distinct blocks."
    )
    return made


@pytest.mark.parametrize("name", NAMES)
def test_speed_and_memory(folder: Path, report: Report, name: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.bench.at_scale", str(folder), name],
        **{"cwd": ROOT, "capture_output": True, "text": True, "check": True, "timeout": 600},
    )
    found = json.loads(run.stdout)
    trace = open_trace(folder)
    rates = [trace.blocks * REPLAYS.get(name, 1) / seconds / 1e6 for seconds in found["cpu_seconds"]]
    report.add(
        *(PART, NAMES[name], median(rates), "M blk/s", TARGETS.get(name)),
        is_floor=True,
        first=rates[0],
        peak_MiB=found["peak_bytes"] / 2**20,
    )
    if name == "curve":
        # 8 bytes a distinct block and 16 a request (OPTIMIZER.md 6).
        room = (8 * trace.distinct_blocks + 16 * trace.requests) / 2**20
        report.add(PART, f"{NAMES[name]}: peak memory", found["peak_bytes"] / 2**20, "MiB", room)


@pytest.mark.parametrize("name", POLICIES)
def test_speed_of_a_policy(folder: Path, report: Report, name: str) -> None:
    """Each at one capacity, and the replay without a limit that a simulation has besides."""
    rounds = 1 if POLICIES[name].is_random else 2
    run = subprocess.run(
        [sys.executable, "-m", "tests.bench.at_scale", str(folder), f"policy_{name}", str(rounds)],
        **{"cwd": ROOT, "capture_output": True, "text": True, "check": True, "timeout": 600},
    )
    found = json.loads(run.stdout)
    blocks = open_trace(folder).blocks
    report.add(
        *(POLICY_PART, name, 2 * blocks / median(found["cpu_seconds"]) / 1e6, "M blk/s"),
        POLICY_TARGETS.get(name, 20),
        is_floor=True,
        peak_MiB=found["peak_bytes"] / 2**20,
    )


def test_error_of_a_sample(folder: Path, report: Report) -> None:
    trace = open_trace(folder)
    sizes = capacities(trace, 24)
    exact = lru_curve(trace, sizes)
    for one_in in (100, 1000):
        sample = sampled_curve(trace, sizes, one_in=one_in)
        errors = np.abs(sample.curve.hit_rate - exact.hit_rate)
        report.add(
            *(PART, f"mean error, hot blocks and 1 in {one_in}", float(errors.mean()) * 100, "points"),
            most=float(errors.max()) * 100,
            spread_of_seeds=sample.spread * 100,
            percent_sampled=sample.sampled_ratio * 100,
        )


@needs_shared
def test_sweep_against_the_reference(tmp_path: Path, report: Report) -> None:
    source = SHARED / "mooncake_conversation_trace.jsonl"
    sizes = [int(size) for size in np.geomspace(100, 182_790, 20)]
    cold, cached = [], []
    for number in range(7):
        began = time.process_time()
        trace = ingest(source, tmp_path / str(number))
        lru_curve(trace, sizes)
        cold.append(time.process_time() - began)
    for _ in range(50):
        began = time.process_time()
        lru_curve(trace, sizes)
        cached.append(time.process_time() - began)
    for name, seconds, target in (
        ("exact LRU, cached trace", median(cached), 500),
        ("from JSON", median(cold[1:]), 25),
    ):
        times = REFERENCE_SECONDS / seconds
        report.add(SWEEP, name, times, "x reference", target, is_floor=True, ms=seconds * 1000)


@needs_shared
@pytest.mark.parametrize(
    ("policy", "reference_seconds", "target"),
    [("lru", 2.76, 40), ("random_lru", 4.46, 3), ("leaf_aware_lru", 3.41, 6)],
)
def test_bit_exact_policies_against_the_reference(
    tmp_path: Path, report: Report, policy: str, reference_seconds: float, target: int
) -> None:
    """Its replays alone, recorded on another machine (OPTIMIZER.md 3); ours with the one without a limit."""
    trace = ingest(SHARED / "mooncake_conversation_trace.jsonl", tmp_path / "trace")
    sizes = [int(size) for size in np.geomspace(100, 182_790, 20)]
    simulate(trace, f"compat:{policy}", sizes[:1])
    seconds = []
    for _ in range(5):
        began = time.process_time()
        simulate(trace, f"compat:{policy}", sizes)
        seconds.append(time.process_time() - began)
    report.add(
        *(SWEEP, f"the reference's {policy}, bit for bit", reference_seconds / median(seconds)),
        *("x reference", target),
        is_floor=True,
        ms=median(seconds) * 1000,
    )
