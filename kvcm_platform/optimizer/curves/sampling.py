"""The LRU curve from a sample of the blocks: the hot ones all, of the others some that stand for the rest.

Spatial sampling as in SHARDS (Waldspurger et al., "Efficient MRC construction with SHARDS", 2015), with
weights: traces of KV blocks have shared prompts that carry percents of all accesses, so one hash would
decide about percents. The most used blocks are kept with weight 1, the others with probability 1 / w and
weight w; distances are weighted (OPTIMIZER.md 5). No bound of the error is claimed: the spread over
several seeds is reported instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kvcm_platform.core.errors import invalid

from ..bits import GOLDEN, mix64, set_bits
from ..compiled import compiled
from ..curve import Curve, Definition, Float64, Progress, Touch, Unit, progress_part
from ..trace import Int32, Int64, Trace, blocks_by_instance
from . import stack
from .bins import edges_of, find_bin
from .chunks import chunks, require_turns, weights_of
from .histograms import block_accesses
from .lru import curve_of_rows, wanted_capacities
from .stack import (
    BLOCKS,
    BYTES,
    FULL,
    POSITIONS,
    TOKENS,
    TOUCHED,
    count_blocks,
    tree_add,
    tree_append,
    tree_sum,
)

HOT_BLOCKS = 2_000
SEEDS = (1, 2, 3, 4, 5)
MOST_SEEDS = 100
_COUNTING = 0.2


@dataclass(frozen=True, slots=True)
class SampledCurve:
    """`curve` is the mean over seeds; `low` and `high` (C) are the least and the largest hit rate of any."""

    curve: Curve
    low: Float64
    high: Float64
    seeds: tuple[int, ...]
    sampled_ratio: float
    """Accesses that were looked at, of all."""

    @property
    def spread(self) -> float:
        """The largest difference between two seeds at any capacity."""
        return float((self.high - self.low).max())


def sampled_curve(
    trace: Trace,
    capacities: Sequence[int] | Int64 | None = None,
    *,
    one_in: int = 100,
    hot_blocks: int = HOT_BLOCKS,
    seeds: Sequence[int] = SEEDS,
    unit: Unit = Unit.BLOCKS,
    on_progress: Progress | None = None,
) -> SampledCurve:
    """`lru_curve` (deepest first) from the `hot_blocks` most used blocks and one in `one_in` of the others.

    Sampling by block is right for policies closed under ancestors alone, so for no other than LRU here.
    Memory: 0.3 bytes a distinct block, 4 a sampled one and 8 a request, after a count of accesses that
    takes 4 a distinct block. It is the exact curve where `one_in` is 1.

    Raises what `lru_curve` does, and INVALID_ARGUMENT for bad `one_in`, `hot_blocks` or `seeds`.
    """
    require_turns(trace, "the sampled curve")
    seeds = tuple(dict.fromkeys(int(seed) for seed in seeds))
    if not 1 <= one_in <= 1_000_000:
        raise invalid("one_in", f"{one_in} is not between 1 and 1,000,000")
    if hot_blocks < 0:
        raise invalid("hot_blocks", f"{hot_blocks} is negative")
    if not 1 <= len(seeds) <= MOST_SEEDS:
        raise invalid("seeds", f"give 1 to {MOST_SEEDS} different ones")
    weights = weights_of(trace, unit)
    wanted = wanted_capacities(trace, weights, capacities)
    edges = edges_of(wanted // weights.unit_size)
    at = np.searchsorted(edges.values, wanted // weights.unit_size)
    hot = _hottest(trace, hot_blocks, progress_part(on_progress, 0, _COUNTING))
    definition = Definition(
        "lru",
        touch=Touch.DEEP,
        unit=unit,
        is_exact=one_in == 1,
        sampling="" if one_in == 1 else f"the {hot_blocks} most used blocks, one in {one_in} of the others",
    )
    curves, looked_at = [], 0
    for number, seed in enumerate(seeds):
        chosen = np.zeros_like(hot)
        _choose(trace.distinct_blocks, one_in, _start_of(seed), hot, chosen)
        ranks = np.zeros(len(chosen) + 1, dtype=np.int32)
        _count_bits(chosen, ranks)
        hot_count, count = _bit_count(hot), int(ranks[-1])
        sampled = one_in * (count - hot_count)
        stands_for = (trace.distinct_blocks - hot_count) / sampled if sampled else 1.0
        rows = np.zeros((2, len(edges) + 2, stack.WIDTH), dtype=np.int64)
        state: tuple[Any, ...] = (
            *(weights.block_tokens, weights.block_bytes, weights.units, one_in, hot, chosen, ranks),
            *(np.full(count, -1, dtype=np.int32), np.zeros(trace.requests + 1, dtype=np.int64)),
            *(np.zeros(2, dtype=np.int64), edges.values, edges.first, rows),
        )
        for chunk in chunks(trace):
            arguments = (*chunk.columns, *state)
            looked_at += _sampled_pass(*arguments)
            share = (number + chunk.end / trace.requests) / len(seeds)
            progress_part(on_progress, _COUNTING, 1)(share)
        curve = curve_of_rows(trace, _adjusted(rows, stands_for), at, definition, wanted)
        curves.append(_bounded(curve, trace, weights.block_bytes))
    rates = np.array([curve.hit_rate for curve in curves])
    return SampledCurve(
        curve=_mean(curves),
        low=rates.min(axis=0),
        high=rates.max(axis=0),
        seeds=seeds,
        sampled_ratio=looked_at / len(seeds) / max(1, trace.blocks),
    )


def _hottest(trace: Trace, hot_blocks: int, on_progress: Progress | None) -> Int64:
    """P bits: the most used blocks, the first ones of those that are used as often as the last taken."""
    bits = np.zeros(-(-trace.distinct_blocks // 64), dtype=np.int64)
    count = min(hot_blocks, trace.distinct_blocks)
    if count:
        counts = block_accesses(trace, on_progress)
        place = len(counts) - count
        least = int(np.partition(counts, place)[place])
        _mark(counts, least, count - int((counts > least).sum()), bits)
    return bits


def _adjusted(rows: Int64, stands_for: float) -> Int64:
    """Rows of hot blocks and of the others as one.

    How often the others are asked for is known, and how many they are: a sampled block stands for
    `stands_for` weights of first uses. What is asked beyond first uses are hits without a limit, so hits
    are scaled to that at all capacities: samples differ in it more than in the shape of their curve.
    """
    hot, others = rows
    # In the last rows: what is asked of all blocks; of the others sampled, and of the hot ones.
    asked, sampled = hot[-1, BLOCKS] - others[-1, TOUCHED], others[-1, BLOCKS]
    hits = int(others[:-1, BLOCKS].sum())
    unlimited = asked - (sampled - hits) * stands_for
    scale = max(0.0, unlimited / hits) if hits else 1.0
    whole: Int64 = hot.copy()
    for column in (BLOCKS, TOKENS, BYTES, POSITIONS):
        whole[:-1, column] += np.rint(others[:-1, column] * scale).astype(np.int64)
    for column in (FULL, TOUCHED):
        whole[:-1, column] += others[:-1, column]
    return whole


def _bounded(curve: Curve, trace: Trace, block_bytes: Int64) -> Curve:
    """Estimates above what there is are cut; distinct blocks are known."""
    return replace(
        curve,
        distinct_blocks=trace.distinct_blocks,
        distinct_bytes=int(blocks_by_instance(trace) @ block_bytes),
        hit_blocks=np.minimum(curve.hit_blocks, curve.blocks),
        hit_tokens=np.minimum(curve.hit_tokens, curve.tokens),
        hit_bytes=np.minimum(curve.hit_bytes, curve.bytes),
        full_hit_requests=np.minimum(curve.full_hit_requests, trace.requests),
        unlimited_hit_blocks=min(curve.unlimited_hit_blocks, curve.blocks),
        unlimited_hit_tokens=min(curve.unlimited_hit_tokens, curve.tokens),
    )


def _mean(curves: list[Curve]) -> Curve:
    def mean(name: str) -> Any:
        return np.rint(np.mean([getattr(curve, name) for curve in curves], axis=0)).astype(np.int64)

    positions = np.array([curve.hit_token_positions for curve in curves]).mean(axis=0)
    return replace(
        curves[0],
        hit_blocks=mean("hit_blocks"),
        hit_tokens=mean("hit_tokens"),
        hit_bytes=mean("hit_bytes"),
        hit_token_positions=positions.astype(np.float64),
        full_hit_requests=mean("full_hit_requests"),
        unlimited_hit_blocks=int(mean("unlimited_hit_blocks")),
        unlimited_hit_tokens=int(mean("unlimited_hit_tokens")),
    )


def _bit_count(bits: Int64) -> int:
    ranks = np.zeros(len(bits) + 1, dtype=np.int32)
    _count_bits(bits, ranks)
    return int(ranks[-1])


def _start_of(seed: int) -> int:
    return int(np.random.default_rng(seed).integers(2**62))


@compiled
def _mark(counts: Int32, least: int, ties: int, bits: Int64) -> None:
    for at in range(len(counts)):
        if counts[at] > least or (counts[at] == least and ties > 0):
            ties -= counts[at] == least
            bits[at >> 6] |= np.int64(1) << (at & 63)


@compiled
def _choose(count: int, one_in: int, start: int, hot: Int64, chosen: Int64) -> None:
    """Bits of the hot blocks and of one in `one_in` of the others, by a mixed number of each."""
    for at in range(count):
        bit = np.int64(1) << (at & 63)
        if hot[at >> 6] & bit != 0 or (mix64(at * GOLDEN + start) & 0x7FFFFFFFFFFFFFFF) % one_in == 0:
            chosen[at >> 6] |= bit


@compiled
def _count_bits(bits: Int64, ranks: Int32) -> None:
    """`ranks` (words + 1): bits set in all words before."""
    for at in range(len(bits)):
        ranks[at + 1] = ranks[at] + set_bits(bits[at])


@compiled
def _sampled_pass(
    first_request: int,
    instance: Int32,
    skip_n: Int32,
    read_n: Int32,
    last_tokens: Int32,
    offset: Int64,
    path: Int32,
    block_tokens: Int64,
    block_bytes: Int64,
    units: Int64,
    one_in: int,
    hot: Int64,
    chosen: Int64,
    ranks: Int32,
    last: Int32,
    tree: Int64,
    state: Int64,
    edges: Int64,
    first: Int32,
    rows: Int64,
) -> int:
    """`stack_pass` for the blocks of a sample, whose number is their rank; returns how many it looked at.

    What a request was the last to use of the sample lies together, as whole runs do. A block of weight w
    stands for w blocks around it: half of them, and itself, lie above. `rows` (2, E + 2, WIDTH) are of hot
    blocks and of the others; in their last rows stand what is asked of all blocks, and what of the others
    (BLOCKS, weighted) and of the hot ones (TOUCHED) alone.
    """
    looked_at = 0
    for request in range(len(instance)):
        now = first_request + request
        start = offset[request]
        count = offset[request + 1] - start
        which = instance[request]
        unit = units[which]
        skip = min(skip_n[request], count)
        lookup = min(read_n[request], count)
        tokens, size, rest = block_tokens[which], block_bytes[which], last_tokens[request]
        resident = state[0]
        row = rows[0, len(edges) + 1]
        if lookup > skip:
            count_blocks(row, skip, lookup, lookup, tokens, rest, size)
        row[TOUCHED] += count
        run = -1
        above = 0
        taken = 0
        brought = 0
        for at in range(count):
            word = path[start + at] >> 6
            bit = np.int64(1) << (path[start + at] & 63)
            if chosen[word] & bit == 0:
                continue
            looked_at += 1
            is_other = int(hot[word] & bit == 0)
            weight = one_in if is_other else 1
            if skip <= at < lookup:
                rows[1, len(edges) + 1, BLOCKS if is_other else TOUCHED] += weight
            slot = ranks[word] + set_bits(chosen[word] & (bit - 1))
            before = last[slot]
            last[slot] = now
            brought += weight * unit
            if before < 0:
                continue
            if before != run:
                if taken > 0:
                    tree_add(tree, run + 1, -taken, now)
                    state[0] -= taken
                run = before
                taken = 0
                above = resident - tree_sum(tree, run + 1)
            found = find_bin(above + taken + (weight + 1) * unit // 2, edges, first)
            taken += weight * unit
            row = rows[is_other, found]
            row[TOUCHED] += weight
            if skip <= at < lookup:
                held = rest if at == lookup - 1 else tokens
                row[BLOCKS] += weight
                row[TOKENS] += weight * held
                row[BYTES] += weight * size
                row[POSITIONS] += weight * (held * at * tokens + held * (held - 1) // 2)
                if at == lookup - 1:
                    row[FULL] += weight
        if taken > 0:
            tree_add(tree, run + 1, -taken, now)
            state[0] -= taken
        tree_append(tree, now + 1, brought)
        state[0] += brought
    return looked_at
