"""A trace that comes in many pieces gives what it gives in one."""

from __future__ import annotations

import random

import pytest

from kvcm_platform.optimizer.curve import Curve, curve_to_json
from kvcm_platform.optimizer.curves import (
    belady_curve,
    chunks,
    histograms,
    lru_analysis,
    sampled_curve,
    ttl_curve,
)
from kvcm_platform.optimizer.generate import Shape, generate
from kvcm_platform.optimizer.trace import Trace
from tests.support.optimizer_traces import random_trace


def answers(trace: Trace) -> list[object]:
    curves: list[Curve] = [
        belady_curve(trace),
        ttl_curve(trace),
        sampled_curve(trace, one_in=3, hot_blocks=5, seeds=[1]).curve,
    ]
    return [lru_analysis(trace, windows_us=50).to_json(), *map(curve_to_json, curves)]


@pytest.mark.parametrize("blocks", [1, 5, 64])
def test_pieces_make_no_difference(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = [random_trace(random.Random(seed), requests=40, instances=3)[0] for seed in range(5)]
    traces.append(generate(200, shape=Shape(system_prompts=5, mean_interval_us=10)))
    whole = [answers(trace) for trace in traces]
    for module in (chunks, histograms):
        monkeypatch.setattr(module, "CHUNK_BLOCKS", blocks)
    for trace, expected in zip(traces, whole, strict=True):
        pieces = list(chunks.chunks(trace))
        assert len(pieces) > 1 and pieces[-1].end == trace.requests
        assert all(piece.offset[-1] == len(piece.path) for piece in pieces)
        assert answers(trace) == expected
