"""The reference simulator's hits at given capacities, as a curve: one replay for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from kvcm_platform.core.errors import invalid
from kvcm_platform.optimizer.compat.replay import Lookups, Piece, ReferenceReplay, lookups_of
from kvcm_platform.optimizer.compat.settings import (
    EvictionMode,
    ReferenceGroup,
    ReferenceInstance,
    ReferencePolicy,
    ReferenceSettings,
)
from kvcm_platform.optimizer.curve import Curve, Definition, Progress
from kvcm_platform.optimizer.trace import Int64, Trace, blocks_by_instance

PREFIX = "compat:"
PARAMETERS: Mapping[str, float] = MappingProxyType(
    {"eviction_mode": 1, "batch_size": 100, "sample_rate": 0.1, "used_percentage": 1.0}
)
"""And their defaults. `eviction_mode` as in the configuration file: 1, 2 or 3."""

_BLOCKS, _TOKENS, _BYTES, _POSITIONS, _FULL, _ASKED, _ASKED_TOKENS, _ASKED_BYTES, _LOOKUPS = range(9)


def reference_curve(
    trace: Trace,
    policy: str,
    capacities: Sequence[int],
    *,
    on_progress: Progress | None = None,
    parameters: Mapping[str, float] | None = None,
) -> Curve:
    """Hits at `capacities` (blocks, ascending) with all instances of the trace in one group.

    `policy`: lru, random_lru or leaf_aware_lru. Hits are those of the reference: of a turn over its whole
    chain (output included, its `skip_n` ignored), of a read without the blocks that the engine had itself.
    `series` has `written_blocks`, `evicted_blocks` and `resident_blocks` (at the end; more than the capacity
    where leaf_aware_lru could not evict).
    """
    known = _policy(policy)
    chosen = _parameters(parameters or {})
    steps = len(capacities) + 1
    rows, series = [], []
    for number, capacity in enumerate([*capacities, 2**62]):
        is_unlimited = number == len(capacities)
        group = ReferenceGroup(
            name="all",
            capacity=capacity,
            used_percentage=1.0 if is_unlimited else chosen["used_percentage"],
            instances=tuple(
                ReferenceInstance(
                    one.instance_id,
                    ReferencePolicy.LRU if is_unlimited else known,
                    chosen["sample_rate"],
                )
                for one in trace.header.instances
            ),
        )
        settings = ReferenceSettings(
            (group,), EvictionMode(int(chosen["eviction_mode"])), int(chosen["batch_size"])
        )
        replay = ReferenceReplay(trace, settings)
        row = np.zeros(9, np.float64)
        for piece in replay.pieces(_part(on_progress, number, steps)):
            row += _counts(trace, piece)
        rows.append(row)
        outcomes = replay.outcomes
        series.append(
            (
                sum(one.written for one in outcomes),
                replay.evicted,
                sum(one.resident for one in outcomes),
            )
        )
    definition = Definition(
        policy=f"{PREFIX}{known}",
        has_partial_blocks=trace.header.has_partial_blocks,
        parameters=chosen,
    )
    return _curve(trace, definition, capacities, np.array(rows), np.array(series[:-1], np.float64))


def _counts(trace: Trace, piece: Piece) -> Int64:
    """What a piece adds to a row of sums."""
    found: Lookups = lookups_of(trace, piece)
    at = found.requests
    instances = trace.header.instances
    owner = np.asarray(trace.instance)[at]
    tokens = np.array([one.block_tokens for one in instances], np.int64)[owner]
    sizes = np.array([one.block_bytes for one in instances], np.int64)[owner]
    asked, hit, skipped = found.external_read, found.external_hit, found.internal_read
    end = skipped + asked
    short = np.zeros_like(tokens)
    if trace.header.has_partial_blocks:
        rest = np.asarray(trace.input_tokens)[at] - (end - 1) * tokens
        short = np.where((rest > 0) & (rest < tokens), tokens - rest, 0)
    is_full = (asked > 0) & (hit >= asked)
    begin = skipped * tokens
    held = np.minimum(hit, asked) * tokens - np.where(is_full, short, 0)
    positions = held * begin + held * (held - 1) // 2
    return np.array(
        [
            hit.sum(),
            held.sum(),
            (hit * sizes).sum(),
            positions.sum(),
            is_full.sum(),
            asked.sum(),
            (asked * tokens - np.where(asked > 0, short, 0)).sum(),
            (asked * sizes).sum(),
            len(at),
        ],
        np.int64,
    )


def _curve(
    trace: Trace, definition: Definition, capacities: Sequence[int], rows: Int64, series: Int64
) -> Curve:
    limited, unlimited = rows[:-1], rows[-1].astype(np.int64)
    hits = limited.astype(np.int64)
    sizes = np.array([one.block_bytes for one in trace.header.instances], np.int64)
    distinct = blocks_by_instance(trace)
    return Curve(
        definition=definition,
        capacities=np.array(capacities, np.int64),
        hit_blocks=hits[:, _BLOCKS],
        hit_tokens=hits[:, _TOKENS],
        hit_bytes=hits[:, _BYTES],
        hit_token_positions=limited[:, _POSITIONS].astype(np.float64),
        full_hit_requests=hits[:, _FULL],
        requests=int(unlimited[_LOOKUPS]),
        blocks=int(unlimited[_ASKED]),
        tokens=int(unlimited[_ASKED_TOKENS]),
        bytes=int(unlimited[_ASKED_BYTES]),
        distinct_blocks=trace.distinct_blocks,
        distinct_bytes=int(distinct @ sizes),
        unlimited_hit_blocks=int(unlimited[_BLOCKS]),
        unlimited_hit_tokens=int(unlimited[_TOKENS]),
        span_us=trace.span_us,
        series={
            "written_blocks": series[:, 0].astype(np.float64),
            "evicted_blocks": series[:, 1].astype(np.float64),
            "resident_blocks": series[:, 2].astype(np.float64),
        },
    )


def _part(on_progress: Progress | None, number: int, steps: int) -> Progress | None:
    if on_progress is None:
        return None
    tell = on_progress
    return lambda share: tell((number + share) / steps)


def _policy(name: str) -> ReferencePolicy:
    try:
        return ReferencePolicy(name.removeprefix(PREFIX))
    except ValueError:
        known = ", ".join(f"{PREFIX}{policy}" for policy in ReferencePolicy)
        raise invalid("policy", f"{name!r} is none of {known}") from None


def _parameters(given: Mapping[str, float]) -> dict[str, float]:
    if unknown := sorted(set(given) - set(PARAMETERS)):
        known = ", ".join(PARAMETERS)
        raise invalid("parameters", f"the reference has no parameter {unknown[0]!r}; it has {known}")
    chosen = {**PARAMETERS, **given}
    if chosen["eviction_mode"] not in tuple(EvictionMode):
        raise invalid("parameters.eviction_mode", f"{chosen['eviction_mode']} is not 1, 2 or 3")
    if chosen["batch_size"] != int(chosen["batch_size"]):
        raise invalid("parameters.batch_size", f"{chosen['batch_size']} is no whole number")
    if not 0 < chosen["used_percentage"] <= 1:
        raise invalid("parameters.used_percentage", f"{chosen['used_percentage']} is not above 0 and up to 1")
    return chosen
