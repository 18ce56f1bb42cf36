"""A trace as columns: what every computation of the optimizer reads.

Blocks have dense path ids: one number for each distinct (instance, chain of keys up to the block), in the
order of first appearance. Parents come before their children. The arrays may be memory maps; nothing
writes to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from kvcm_platform.core.traces import BadLine as BadLine

Int8 = NDArray[np.int8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

NO_PARENT = -1
NO_SESSION = -1


class Event(IntEnum):
    """What a request of a trace does."""

    TURN = 0
    """Looks its chain up, then brings what is missing: the whole chain is used."""
    READ = 1
    """Looks its chain up and refreshes what it hit."""
    WRITE = 2
    """Brings the missing blocks of its chain (a finished write)."""


@dataclass(frozen=True, slots=True)
class TraceInstance:
    """`block_bytes` is 0 where the trace does not say it."""

    instance_id: str
    block_tokens: int
    block_bytes: int = 0
    group: str = ""


MAX_BLOCK_TOKENS = 1 << 20
MAX_BLOCK_BYTES = 1 << 40
"""Larger ones are no sizes of blocks, and sums of them would not fit 64 bits."""


def instance_checked(instance: TraceInstance) -> TraceInstance:
    """The instance itself. Raises ValueError for sizes of blocks out of range."""
    if not 1 <= instance.block_tokens <= MAX_BLOCK_TOKENS:
        raise ValueError(f"blocks of {instance.block_tokens} tokens: 1 to {MAX_BLOCK_TOKENS:,} are possible")
    if not 0 <= instance.block_bytes <= MAX_BLOCK_BYTES:
        raise ValueError(f"blocks of {instance.block_bytes} bytes: up to {MAX_BLOCK_BYTES:,} are possible")
    return instance


@dataclass(frozen=True, slots=True)
class TraceHeader:
    """`start_us` is the unix time of `at_us` 0, or 0 where the trace has relative times only.

    `has_partial_blocks`: the last block of a prompt may be a partial one and is counted as a block.
    `bad_lines` are the first ones skipped, `bad_line_count` is their number. `notes` say what was
    assumed or left out, a sentence each.
    """

    name: str
    format: str
    instances: tuple[TraceInstance, ...]
    types: tuple[str, ...] = ("",)
    start_us: int = 0
    has_partial_blocks: bool = False
    bad_lines: tuple[BadLine, ...] = ()
    bad_line_count: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """R requests in order of time, B block accesses, P distinct blocks.

    Request r has the chain `path[offset[r]:offset[r + 1]]`, first block first; its n blocks are all used
    (TURN), of which the first `read_n` were looked up, and of these the engine had the first
    `skip_n` itself: asked for are `read_n - skip_n`. A TURN with n > `read_n` brings blocks of its output.
    """

    header: TraceHeader
    at_us: Int64
    """R: microseconds since the start, not falling."""
    event: Int8
    """R: Event."""
    instance: Int32
    """R: position in `header.instances`."""
    type: Int32
    """R: position in `header.types`."""
    session: Int32
    """R: number of the session, or NO_SESSION."""
    input_tokens: Int32
    """R: of the prompt; the last block holds what is over full blocks."""
    output_tokens: Int32
    skip_n: Int32
    read_n: Int32
    offset: Int64
    """R + 1."""
    path: Int32
    """B: path ids, 0 <= id < P."""
    parent: Int32
    """P: path id of the block before it, or NO_PARENT."""
    depth: Int32
    """P: blocks before it in its chain; 0 for a first block."""
    key: Int64
    """P: the block key, or the id that the trace gives the block."""
    path_instance: Int32
    """P: position in `header.instances`."""

    @property
    def requests(self) -> int:
        return len(self.at_us)

    @property
    def blocks(self) -> int:
        return len(self.path)

    @property
    def distinct_blocks(self) -> int:
        return len(self.parent)

    @property
    def span_us(self) -> int:
        """Time between the first request and the last."""
        return int(self.at_us[-1] - self.at_us[0]) if len(self.at_us) else 0


_PIECE = 1 << 21
"""Elements of a column that are looked at together: a trace may be larger than memory."""


def blocks_by_instance(trace: Trace) -> Int64:
    """Distinct blocks of each instance of the header."""
    counts = np.zeros(len(trace.header.instances), dtype=np.int64)
    for begin in range(0, trace.distinct_blocks, _PIECE):
        counts += np.bincount(trace.path_instance[begin : begin + _PIECE], minlength=len(counts))
    return counts


def has_only_turns(trace: Trace) -> bool:
    """Whether no request reads or writes alone."""
    return not any(
        (np.asarray(trace.event[begin : begin + _PIECE]) != Event.TURN).any()
        for begin in range(0, trace.requests, _PIECE)
    )
