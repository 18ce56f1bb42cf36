"""A trace in pieces of whole requests: what the kernels are fed with, and what requests and blocks weigh."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kvcm_platform.core.errors import Code, DomainError, invalid

from ..curve import Unit
from ..trace import Int32, Int64, Trace, blocks_by_instance, has_only_turns

CHUNK_BLOCKS = 1 << 21
"""A twentieth of a second of work, 8 MiB."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Requests `begin` to `end`, copied: arrays of one kind for the kernels whatever the trace lies in.

    `offset` counts from the start of `path`. `last_tokens` are the tokens of the last block looked up.
    """

    begin: int
    end: int
    at_us: Int64
    instance: Int32
    type: Int32
    skip_n: Int32
    read_n: Int32
    last_tokens: Int32
    offset: Int64
    path: Int32

    @property
    def columns(self) -> tuple[Any, ...]:
        """What every kernel begins with: first request, R: instance, skip_n, read_n, tokens of the last
        block looked up, R + 1: offset, path."""
        return (
            *(self.begin, self.instance, self.skip_n, self.read_n, self.last_tokens),
            *(self.offset, self.path),
        )


@dataclass(frozen=True, slots=True)
class Weights:
    """By instance: tokens and bytes of a block, and what a block takes of the capacity, in `unit_size`s."""

    block_tokens: Int64
    block_bytes: Int64
    units: Int64
    unit_size: int
    """A capacity of C holds C // unit_size units; 1 where the unit is blocks."""


def chunks(trace: Trace, *, has_path: bool = True) -> Iterator[Chunk]:
    """Each request in one piece; a piece has CHUNK_BLOCKS blocks or one request more. `path` may stay out."""
    block_tokens = weights_of(trace, Unit.BLOCKS).block_tokens
    begin = 0
    while begin < trace.requests:
        least = int(trace.offset[begin]) + CHUNK_BLOCKS
        end = int(np.searchsorted(trace.offset, least, side="left"))
        end = min(trace.requests, max(begin + 1, end), begin + CHUNK_BLOCKS)
        offset = np.array(trace.offset[begin : end + 1], dtype=np.int64)
        path = trace.path[offset[0] : offset[-1]] if has_path else trace.path[:0]
        instance = np.array(trace.instance[begin:end], dtype=np.int32)
        read_n = np.array(trace.read_n[begin:end], dtype=np.int32)
        full = block_tokens[instance]
        last = full
        if trace.header.has_partial_blocks:
            rest = np.asarray(trace.input_tokens[begin:end], dtype=np.int64) - (read_n - 1) * full
            last = np.where((rest > 0) & (rest < full), rest, full)
        yield Chunk(
            begin=begin,
            end=end,
            at_us=np.array(trace.at_us[begin:end], dtype=np.int64),
            instance=instance,
            type=np.array(trace.type[begin:end], dtype=np.int32),
            skip_n=np.array(trace.skip_n[begin:end], dtype=np.int32),
            read_n=read_n,
            last_tokens=last.astype(np.int32),
            offset=offset - offset[0],
            path=np.array(path, dtype=np.int32),
        )
        begin = end


def weights_of(trace: Trace, unit: Unit) -> Weights:
    """Raises INVALID_ARGUMENT for bytes where the trace does not say the size of an instance's blocks."""
    instances = trace.header.instances
    block_tokens = np.array([instance.block_tokens for instance in instances], dtype=np.int64)
    block_bytes = np.array([instance.block_bytes for instance in instances], dtype=np.int64)
    if unit is Unit.BLOCKS:
        return Weights(block_tokens, block_bytes, np.ones(len(instances), dtype=np.int64), 1)
    if (unknown := [one.instance_id for one in instances if one.block_bytes <= 0]) or not instances:
        names = ", ".join(unknown[:5])
        raise invalid("unit", f"the trace does not say how many bytes a block has (instances: {names})")
    size = int(np.gcd.reduce(block_bytes))
    return Weights(block_tokens, block_bytes, block_bytes // size, size)


def distinct_units(trace: Trace, units: Int64) -> int:
    """What all distinct blocks take together."""
    if len(units) == 1 or (units == units[0]).all():
        return int(units[0]) * trace.distinct_blocks if len(units) else 0
    return int(blocks_by_instance(trace) @ units)


def require_turns(trace: Trace, what: str) -> None:
    """Reads and writes apart have no one recency stack (OPTIMIZER.md 1), so no curve in one pass."""
    if not has_only_turns(trace):
        raise DomainError(
            Code.UNSUPPORTED,
            f"events: {what} needs turns, and this trace reads and writes apart;"
            " read it as turns, or simulate its capacities one by one",
            field="events",
        )
