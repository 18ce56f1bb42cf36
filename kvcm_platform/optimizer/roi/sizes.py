"""The capacities of a curve in bytes, whatever they were counted in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvcm_platform.core.errors import DomainError, invalid

from ..curve import Curve, Float64, Unit
from ..trace import MAX_BLOCK_BYTES, Trace
from .models import ModelCost

TTL = "ttl"


def mean_block_bytes(curve: Curve, block_bytes: float | None = None) -> float:
    """Bytes of a block: as given, else the mean of the trace's distinct blocks.

    Raises DomainError where neither says it.
    """
    if block_bytes:
        return float(block_bytes)
    if curve.distinct_bytes and curve.distinct_blocks:
        return curve.distinct_bytes / curve.distinct_blocks
    raise invalid("block_bytes", "the trace does not say how large its blocks are: name it")


def capacity_bytes(curve: Curve, block_bytes: float | None = None) -> Float64:
    """Bytes held at each capacity; of a TTL curve those held on average. Raises as `mean_block_bytes`."""
    if curve.definition.policy == TTL:
        if "mean_resident" not in curve.series:
            raise invalid("curve", "a TTL curve without mean_resident has no place on the axis of capacity")
        if "mean_resident_bytes" in curve.series and curve.distinct_bytes and not block_bytes:
            return curve.series["mean_resident_bytes"]
        held = curve.series["mean_resident"]
    else:
        held = curve.capacities.astype(np.float64)
    if curve.definition.unit == Unit.BYTES:
        return np.asarray(held, dtype=np.float64)
    return np.asarray(held * mean_block_bytes(curve, block_bytes), dtype=np.float64)


def capacity_of_bytes(curve: Curve, size_bytes: float, block_bytes: float | None = None) -> float | None:
    """A size in the unit of the curve; None for a TTL, and where the size of blocks is not known."""
    if curve.definition.policy == TTL:
        return None
    if curve.definition.unit == Unit.BYTES:
        return float(size_bytes)
    try:
        return size_bytes / mean_block_bytes(curve, block_bytes)
    except DomainError:
        return None


def hit_bytes(curve: Curve, block_bytes: float | None = None) -> Float64:
    """Bytes of the blocks hit at each capacity. Raises as `mean_block_bytes`."""
    if curve.bytes and not block_bytes:
        return curve.hit_bytes.astype(np.float64)
    return np.asarray(curve.hit_blocks * mean_block_bytes(curve, block_bytes), dtype=np.float64)


def with_block_bytes(trace: Trace, model: ModelCost) -> Trace:
    """The trace with blocks as large as the model makes them, where it does not say their size itself.

    Raises DomainError where they would be larger than any block.
    """
    instances = tuple(
        one if one.block_bytes else replace(one, block_bytes=_block_bytes(one.block_tokens, model))
        for one in trace.header.instances
    )
    return replace(trace, header=replace(trace.header, instances=instances))


def _block_bytes(block_tokens: int, model: ModelCost) -> int:
    size = max(1, round(block_tokens * model.kv_bytes_per_token))
    if size > MAX_BLOCK_BYTES:
        raise invalid(
            "kv_bytes_per_token",
            f"blocks of {block_tokens} tokens would have more than {MAX_BLOCK_BYTES:,} bytes",
        )
    return size
