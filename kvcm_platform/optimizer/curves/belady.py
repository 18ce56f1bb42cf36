"""The clairvoyant bound: the most hits that any cache of a size could have, by Belady's rule over runs.

Belady, "A study of replacement algorithms for a virtual-storage computer" (1966): keep what is used next
soonest. On ties the deepest block goes first, which keeps what is there closed under ancestors, and a block
may pass the cache by (OPTIMIZER.md 1). A block whose next use does not ask for it (the engine has it itself,
or it is output) would bring nothing, so it is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvcm_platform.core.errors import Code, DomainError

from ..bits import highest_bit
from ..compiled import compiled
from ..curve import Curve, Definition, Progress, Unit
from ..trace import Int32, Int64, Trace
from . import stack
from .bins import capacities_of, log_linear
from .chunks import Weights, chunks, require_turns, weights_of
from .lru import curve_of_rows
from .stack import FRESH, FRESH_BYTES, TOUCHED, count_blocks

OCTAVE_BITS = 1
"""Two capacities of each doubling where none are given."""
_PREPARING = 0.2


def belady_curve(
    trace: Trace,
    capacities: Sequence[int] | Int64 | None = None,
    *,
    unit: Unit = Unit.BLOCKS,
    on_progress: Progress | None = None,
) -> Curve:
    """The bound at each capacity, one after the other over links between requests.

    Memory: 4 bytes a distinct block, about 30 a request. Raises UNSUPPORTED for a trace that reads and
    writes apart and, in bytes, for blocks of different sizes (that optimum is a knapsack);
    INVALID_ARGUMENT for bad capacities.
    """
    require_turns(trace, "the clairvoyant bound")
    weights = weights_of(trace, unit)
    if unit is Unit.BYTES and len(np.unique(weights.block_bytes)) > 1:
        raise DomainError(
            Code.UNSUPPORTED,
            "unit: the clairvoyant bound in bytes needs blocks of one size; count blocks, or one instance",
            field="unit",
        )
    every = log_linear(max(1, trace.distinct_blocks), per_octave_bits=OCTAVE_BITS)
    wanted = every * weights.unit_size if capacities is None else capacities_of(capacities)
    total = np.zeros(stack.WIDTH, dtype=np.int64)
    unlimited = np.zeros(stack.WIDTH, dtype=np.int64)
    links = _links_of(trace, weights, (total, unlimited), on_progress)
    hits = np.zeros((len(wanted), stack.WIDTH), dtype=np.int64)
    for number, capacity in enumerate(wanted.tolist()):
        kept = np.zeros(trace.requests, dtype=np.int32)
        pending, places = _empty_set(trace.requests)
        used = np.zeros(1, dtype=np.int64)
        state: tuple[Any, ...] = (
            *(capacity // weights.unit_size, weights.block_tokens, weights.block_bytes),
            *(links.start, links.target, links.blocks, kept, pending, places, used, hits[number]),
        )
        for chunk in chunks(trace, has_path=False):
            arguments = (*chunk.columns, *state)
            _replay(*arguments)
            if on_progress is not None:
                share = (number + chunk.end / trace.requests) / len(wanted)
                on_progress(_PREPARING + (1 - _PREPARING) * share)
    # As rows of a histogram: what each capacity adds to the one before.
    rows = np.concatenate([np.diff(hits, axis=0, prepend=0), [unlimited - hits[-1], total]])
    return curve_of_rows(trace, rows, np.arange(len(wanted)), Definition("belady", unit=unit), wanted)


@dataclass(frozen=True, slots=True)
class _Links:
    """From each request: `start` (R + 1) into `target` and `blocks` (L each): so many blocks that it used
    are asked for next by that later request; nearest first."""

    start: Int64
    target: Int32
    blocks: Int32


def _links_of(
    trace: Trace, weights: Weights, rows: tuple[Int64, Int64], on_progress: Progress | None
) -> _Links:
    last = np.full(trace.distinct_blocks, -1, dtype=np.int32)
    parts: list[NDArray[np.int32]] = []
    state: tuple[Any, ...] = (weights.block_tokens, weights.block_bytes, last, *rows)
    for chunk in chunks(trace):
        # A run has one block at least.
        found = np.empty((len(chunk.path), 3), dtype=np.int32)
        arguments = (*chunk.columns, *state, found)
        count = _find_links(*arguments)
        parts.append(found[:count].copy())
        if on_progress is not None:
            on_progress(_PREPARING * chunk.end / trace.requests)
    del last, state
    start = np.zeros(trace.requests + 1, dtype=np.int64)
    for part in parts:
        start[1:] += np.bincount(part[:, 0], minlength=trace.requests)
    start = start.cumsum()
    links = _Links(start, np.empty(start[-1], dtype=np.int32), np.empty(start[-1], dtype=np.int32))
    filled = start[:-1].copy()
    for part in parts:
        _by_source(part, filled, links.target, links.blocks)
    return links


@compiled
def _find_links(
    first_request: int,
    instance: Int32,
    skip_n: Int32,
    read_n: Int32,
    last_tokens: Int32,
    offset: Int64,
    path: Int32,
    block_tokens: Int64,
    block_bytes: Int64,
    last: Int32,
    total: Int64,
    unlimited: Int64,
    found: Int32,
) -> int:
    """Rows (from, to, blocks) of the runs (stack.py) of a chunk that are asked for; returns their number.

    `total` and `unlimited` (WIDTH) count what is asked for, and what of it was used before.
    """
    links = 0
    for request in range(len(instance)):
        now = first_request + request
        start = offset[request]
        count = offset[request + 1] - start
        which = instance[request]
        skip = min(skip_n[request], count)
        lookup = min(read_n[request], count)
        tokens, size = block_tokens[which], block_bytes[which]
        if lookup > skip:
            count_blocks(total, skip, lookup, lookup, tokens, last_tokens[request], size)
        total[TOUCHED] += count
        begin = 0
        while begin < count:
            before = last[path[start + begin]]
            end = begin
            while end < count and last[path[start + end]] == before:
                last[path[start + end]] = now
                end += 1
            asked_begin, asked_end = max(begin, skip), min(end, lookup)
            if before < 0:
                total[FRESH] += end - begin
                total[FRESH_BYTES] += (end - begin) * size
            elif asked_end > asked_begin:
                count_blocks(unlimited, asked_begin, asked_end, lookup, tokens, last_tokens[request], size)
                found[links, 0] = before
                found[links, 1] = now
                found[links, 2] = asked_end - asked_begin
                links += 1
            begin = end
    return links


@compiled
def _by_source(part: Int32, filled: Int64, target: Int32, blocks: Int32) -> None:
    for at in range(len(part)):
        place = filled[part[at, 0]]
        target[place] = part[at, 1]
        blocks[place] = part[at, 2]
        filled[part[at, 0]] = place + 1


def _empty_set(size: int) -> tuple[Int64, Int64]:
    """A set of numbers below `size` as bits, with bits of which words of 64 have any above them, and so on;
    and where each level begins."""
    places = [0]
    while True:
        size = -(-size // 64)
        places.append(places[-1] + max(1, size))
        if size <= 1:
            return np.zeros(places[-1], dtype=np.int64), np.array(places, dtype=np.int64)


@compiled
def _add(pending: Int64, places: Int64, value: int) -> None:
    for level in range(len(places) - 1):
        word = places[level] + (value >> 6)
        before = pending[word]
        pending[word] = before | (np.int64(1) << (value & 63))
        if before != 0:
            return
        value >>= 6


@compiled
def _remove(pending: Int64, places: Int64, value: int) -> None:
    for level in range(len(places) - 1):
        word = places[level] + (value >> 6)
        pending[word] &= ~(np.int64(1) << (value & 63))
        if pending[word] != 0:
            return
        value >>= 6


@compiled
def _largest(pending: Int64, places: Int64) -> int:
    value = 0
    for level in range(len(places) - 2, -1, -1):
        value = (value << 6) + highest_bit(pending[places[level] + value])
    return value


@compiled
def _replay(
    first_request: int,
    instance: Int32,
    skip_n: Int32,
    read_n: Int32,
    last_tokens: Int32,
    offset: Int64,
    _path: Int32,
    capacity: int,
    block_tokens: Int64,
    block_bytes: Int64,
    start: Int64,
    target: Int32,
    blocks: Int32,
    kept: Int32,
    pending: Int64,
    places: Int64,
    used: Int64,
    row: Int64,
) -> None:
    """Goes on by a chunk at one capacity.

    State: `kept` (all requests) blocks in the cache that a request will ask for next, always the first ones
    of what it asks for; `pending` the requests for which there are any; `used[0]` their sum.
    """
    held = used[0]
    for request in range(len(instance)):
        now = first_request + request
        hits = kept[now]
        if hits > 0:
            _remove(pending, places, now)
            held -= hits
            which = instance[request]
            skip = skip_n[request]
            lookup = min(read_n[request], offset[request + 1] - offset[request])
            tokens, size = block_tokens[which], block_bytes[which]
            count_blocks(row, skip, skip + hits, lookup, tokens, last_tokens[request], size)
        for link in range(start[now], start[now + 1]):
            goal = target[link]
            if kept[goal] == 0:
                _add(pending, places, goal)
            kept[goal] += blocks[link]
            held += blocks[link]
            while held > capacity:
                furthest = _largest(pending, places)
                gone = min(kept[furthest], held - capacity)
                kept[furthest] -= gone
                held -= gone
                if kept[furthest] == 0:
                    _remove(pending, places, furthest)
    used[0] = held
