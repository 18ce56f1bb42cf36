"""Curves whose figures were worked out on paper, for tests of what is made from curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kvcm_platform.optimizer.curve import Curve, Definition, Unit


def curve(
    capacities: Sequence[int],
    hit_blocks: Sequence[int],
    *,
    blocks: int = 100,
    block_tokens: int = 10,
    block_bytes: int = 0,
    positions: Sequence[float] | None = None,
    span_us: int = 3_600_000_000,
    requests: int = 20,
    distinct_blocks: int = 40,
    policy: str = "lru",
    unit: Unit = Unit.BLOCKS,
    series: dict[str, Any] | None = None,
) -> Curve:
    """All blocks full; `positions` are summed token positions of the hits, by default 0."""
    hits = np.asarray(hit_blocks, dtype=np.int64)
    return Curve(
        definition=Definition(policy=policy, touch="deep", unit=unit),
        capacities=np.asarray(capacities, dtype=np.int64),
        hit_blocks=hits,
        hit_tokens=hits * block_tokens,
        hit_bytes=hits * block_bytes,
        hit_token_positions=np.asarray(positions if positions is not None else hits * 0.0, dtype=np.float64),
        full_hit_requests=hits // 10,
        requests=requests,
        blocks=blocks,
        tokens=blocks * block_tokens,
        bytes=blocks * block_bytes,
        distinct_blocks=distinct_blocks,
        distinct_bytes=distinct_blocks * block_bytes,
        unlimited_hit_blocks=int(hits.max(initial=0)),
        unlimited_hit_tokens=int(hits.max(initial=0)) * block_tokens,
        span_us=span_us,
        series={name: np.asarray(values, dtype=np.float64) for name, values in (series or {}).items()},
    )
