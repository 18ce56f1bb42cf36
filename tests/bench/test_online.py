"""What the online estimate costs a worker, with a stack as large as it gets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from kvcm_platform.index.noted_calls import Noted, sampled
from kvcm_platform.index.request_entries import QUERY, SampledCalls, decode_sampled, encode_sampled
from kvcm_platform.optimizer.curves import lru_curve
from kvcm_platform.optimizer.generate import generate
from kvcm_platform.optimizer.online import FACTORS, OnlineStack
from kvcm_platform.optimizer.online_form import OnlineRecord, online_from_bytes, online_to_bytes
from kvcm_platform.optimizer.trace import Trace
from tests.support.data_plane import instance

from .report import Report

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

PART = "Online estimate of a group, generated traffic"
OWNER = instance()
REQUESTS, A_ENTRY = 200_000, 250


def entries(trace: Trace, k: int) -> Iterator[SampledCalls]:
    path = np.asarray(trace.path, dtype=np.int64)
    for begin in range(0, trace.requests, A_ENTRY):
        ends = trace.offset[begin : begin + A_ENTRY + 1]
        noted = [
            Noted(QUERY, OWNER, path[first:end].tobytes(), None, 0, 0, 2)
            for first, end in zip(ends[:-1], ends[1:], strict=True)
        ]
        yield replace(sampled(noted, k), at_ms=60_000)


def test_cost_and_error(report: Report) -> None:
    trace = generate(REQUESTS, seed=5)
    capacity = trace.distinct_blocks // 8
    exact = lru_curve(trace, [int(capacity * factor) for factor in FACTORS]).hit_rate
    stack = OnlineStack()
    stack.set_capacity(capacity, 0)
    told = list(entries(trace, 0))
    stack.add(told[:1], [[OWNER.number]], {OWNER.number: 1})  # compiled, or read from the cache
    accesses, mark = 0, time.process_time()
    for begin in range(1, len(told), 20):
        part = told[begin : begin + 20]
        accesses += sum(len(one.ids) for one in part)
        stack.add(part, [[OWNER.number]] * len(part), {OWNER.number: 1})
    seconds = time.process_time() - mark
    report.add(PART, "sampled blocks told", accesses / seconds / 1e6, "M/s CPU", blocks=len(stack.ids))
    mark = time.process_time()
    data = online_to_bytes(OnlineRecord(stack))
    online_from_bytes(data)
    report.add(PART, "state written and read", (time.process_time() - mark) * 1000, "ms", bytes=len(data))
    mark = time.process_time()
    forms = [encode_sampled(one) for one in told[:200]]
    for head, body in forms:
        decode_sampled({b"h": head, b"d": body})
    size = sum(len(one.ids) for one in told[:200])
    report.add(PART, "entry made and read", (time.process_time() - mark) / size * 1e9, "ns a block told")
    rates = stack.estimates(60_000)[OWNER.number].hit_rates
    assert rates is not None
    error = float(np.abs(np.array(rates) - exact).max())
    name = f"largest error, one block in {1 << stack.k}, more of shallow ones"
    report.add(PART, name, error * 100, "points of the hit rate")
