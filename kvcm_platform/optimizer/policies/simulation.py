"""Hits of a policy at given capacities: one replay of the trace for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kvcm_platform.core.errors import invalid
from kvcm_platform.optimizer.compat import PREFIX, reference_curve
from kvcm_platform.optimizer.curve import Curve, Definition, Events, Progress, Touch, Unit
from kvcm_platform.optimizer.policies import kernel, state
from kvcm_platform.optimizer.policies.columns import Cache, new_cache, reset
from kvcm_platform.optimizer.policies.registry import POLICIES, Policy
from kvcm_platform.optimizer.request_arrays import Requests, read_only, requests_of
from kvcm_platform.optimizer.trace import Trace, blocks_by_instance

MOST_CAPACITIES = 10_000
UNLIMITED = 2**62
MOST_US = 2**60
_CHUNK_BLOCKS = 1_000_000
"""Progress is told after each so many blocks: at most a few tenths of a second of work."""
_ORPHAN_LOOKS = 8
"""How many times in a replay the residents behind holes are counted."""


@dataclass(frozen=True, slots=True)
class _Replay:
    """What is the same at every capacity."""

    policy: Policy
    is_deep: bool
    is_apart: bool
    delay_us: int
    has_partial: bool
    looks_for_holes: bool
    requests: Requests
    parent: NDArray[np.int32]
    chunks: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Outcome:
    totals: list[int]
    sums: list[float]
    evicted: int
    orphan_share: float


def simulate(
    trace: Trace,
    policy: str,
    capacities: Sequence[int],
    *,
    touch: Touch = Touch.DEEP,
    events: Events = Events.TURN,
    delay_us: int = 0,
    unit: Unit = Unit.BLOCKS,
    seed: int = 0,
    on_progress: Progress | None = None,
    parameters: Mapping[str, float] | None = None,
) -> Curve:
    """Replays `trace` at each capacity (blocks or bytes, as `unit` says; sorted, equal ones once).

    `events` READ_WRITE: a turn reads at once and its blocks are written `delay_us` later. READ and WRITE
    events of the trace are what they are either way. `seed` is for policies that draw. `parameters` override
    the policy's own (`POLICIES[...].parameters`).

    The curve's `series`: `resident_rate` (share of the blocks asked for that were resident, behind a hole or
    not), `orphan_share` (of the residents, how many are behind a hole, mean over the replay),
    `evicted_blocks` (those too that the request that pushed them out brings back), `mean_resident` (capacity
    used, mean over the span of the trace).

    Names with `compat:` before them are the reference simulator's policies (`compat.reference_curve`).

    Raises DomainError (INVALID_ARGUMENT) with the name of the argument that is wrong; and what `on_progress`
    raises.
    """
    if policy.startswith(PREFIX):
        sizes = _capacities(capacities)
        _check_reference(events=events, delay_us=delay_us, unit=unit)
        return reference_curve(trace, policy, sizes, on_progress=on_progress, parameters=parameters)
    chosen = _policy(policy)
    settings = _parameters(chosen, parameters or {})
    sizes = _capacities(capacities)
    _check(trace, events=events, delay_us=delay_us, unit=unit, seed=seed)
    counts_bytes = unit is Unit.BYTES
    is_deep = touch is Touch.DEEP or not chosen.has_touch_order
    is_closed = chosen.closed_deep if is_deep else chosen.closed_root
    run = _Replay(
        policy=chosen,
        is_deep=is_deep,
        is_apart=events is Events.READ_WRITE,
        delay_us=delay_us,
        has_partial=trace.header.has_partial_blocks,
        looks_for_holes=not is_closed,
        requests=requests_of(trace),
        parent=read_only(trace.parent, np.int32),
        chunks=list(_chunks(trace)),
    )
    tell = _steps(on_progress, (len(sizes) + 1) * len(run.chunks))
    cache = new_cache(trace, chosen, counts_bytes=counts_bytes, largest_capacity=sizes[-1])
    outcomes = []
    for capacity in sizes:
        reset(cache, capacity=capacity, parameters=settings, seed=seed)
        outcomes.append(_outcome(run, cache, tell))
    unlimited = _unlimited(run, cache, tell)
    definition = Definition(
        policy=policy,
        touch=touch if chosen.has_touch_order else "",
        events=events,
        delay_us=delay_us,
        unit=unit,
        has_partial_blocks=trace.header.has_partial_blocks,
        parameters={**settings, **({"seed": seed} if chosen.is_random else {})},
    )
    return _curve(trace, definition, sizes, outcomes, unlimited)


def _outcome(run: _Replay, cache: Cache, tell: Callable[[], None]) -> _Outcome:
    totals = np.zeros(kernel.TOTALS, np.int64)
    sums = np.zeros(kernel.SUMS, np.float64)
    if len(run.requests.at_us):
        totals[kernel.AT_US] = run.requests.at_us[0]
    reachable = np.zeros(len(run.parent) if run.looks_for_holes else 1, np.bool_)
    look_after = {(len(run.chunks) - 1) * look // _ORPHAN_LOOKS for look in range(1, _ORPHAN_LOOKS + 1)}
    shares = []
    for number, (begin, end) in enumerate(run.chunks):
        kernel.replay(
            run.policy.number,
            run.is_deep,
            run.is_apart,
            run.delay_us,
            run.has_partial,
            run.looks_for_holes,
            cache.blocks,
            cache.queues,
            cache.numbers,
            *run.requests,
            begin,
            end,
            totals,
            sums,
        )
        if run.looks_for_holes and number in look_after and cache.numbers[state.COUNT]:
            found = kernel.orphans(cache.blocks, run.parent, reachable)
            shares.append(found / int(cache.numbers[state.COUNT]))
        tell()
    return _Outcome(
        totals=totals.tolist(),
        sums=sums.tolist(),
        evicted=int(cache.numbers[state.EVICTED]),
        orphan_share=float(np.mean(shares)) if shares else 0.0,
    )


def _unlimited(run: _Replay, cache: Cache, tell: Callable[[], None]) -> _Outcome:
    """A cache that never evicts, in the arrays of the one before."""
    plain = replace(run, policy=POLICIES["fifo"], looks_for_holes=False)
    reset(cache, capacity=UNLIMITED, parameters={}, seed=0)
    return _outcome(plain, cache, tell)


def _curve(
    trace: Trace, definition: Definition, sizes: list[int], outcomes: list[_Outcome], unlimited: _Outcome
) -> Curve:
    def column(place: int) -> NDArray[np.int64]:
        return np.array([outcome.totals[place] for outcome in outcomes], np.int64)

    def series(values: list[float]) -> NDArray[np.float64]:
        return np.array(values, np.float64)

    whole = unlimited.totals
    asked = max(1, whole[kernel.ASKED_BLOCKS])
    span = max(1, trace.span_us)
    is_closed = not any(outcome.totals[kernel.RESIDENT_BLOCKS] for outcome in outcomes)
    residents = column(kernel.HIT_BLOCKS if is_closed else kernel.RESIDENT_BLOCKS)
    sizes_bytes = np.array([instance.block_bytes for instance in trace.header.instances], np.int64)
    return Curve(
        definition=definition,
        capacities=np.array(sizes, np.int64),
        hit_blocks=column(kernel.HIT_BLOCKS),
        hit_tokens=column(kernel.HIT_TOKENS),
        hit_bytes=column(kernel.HIT_BYTES),
        hit_token_positions=series([outcome.sums[kernel.HIT_TOKEN_POSITIONS] for outcome in outcomes]),
        full_hit_requests=column(kernel.FULL_HITS),
        requests=whole[kernel.LOOKUPS],
        blocks=whole[kernel.ASKED_BLOCKS],
        tokens=whole[kernel.ASKED_TOKENS],
        bytes=whole[kernel.ASKED_BYTES],
        distinct_blocks=trace.distinct_blocks,
        distinct_bytes=int(sizes_bytes @ blocks_by_instance(trace)),
        unlimited_hit_blocks=whole[kernel.HIT_BLOCKS],
        unlimited_hit_tokens=whole[kernel.HIT_TOKENS],
        span_us=trace.span_us,
        series={
            "resident_rate": series(list(residents / asked)),
            "orphan_share": series([outcome.orphan_share for outcome in outcomes]),
            "evicted_blocks": series([outcome.evicted for outcome in outcomes]),
            "mean_resident": series([outcome.sums[kernel.RESIDENT_TIME] / span for outcome in outcomes]),
        },
    )


def _chunks(trace: Trace) -> Iterator[tuple[int, int]]:
    """Whole requests of about _CHUNK_BLOCKS blocks; _ORPHAN_LOOKS pieces or more of a trace of any size."""
    step = max(1, min(_CHUNK_BLOCKS, trace.blocks // _ORPHAN_LOOKS))
    begin = 0
    while begin < trace.requests:
        end = int(np.searchsorted(trace.offset, trace.offset[begin] + step, side="left"))
        end = min(max(end, begin + 1), trace.requests)
        yield begin, end
        begin = end


def _steps(on_progress: Progress | None, steps: int) -> Callable[[], None]:
    done = 0

    def tell() -> None:
        nonlocal done
        done += 1
        if on_progress is not None:
            on_progress(min(1.0, done / max(1, steps)))

    return tell


def _policy(name: str) -> Policy:
    chosen = POLICIES.get(name)
    if chosen is None:
        raise invalid("policy", f"{name!r} is none of {', '.join(POLICIES)}, {PREFIX}...")
    return chosen


def _parameters(policy: Policy, given: Mapping[str, float]) -> dict[str, float]:
    unknown = sorted(set(given) - set(policy.parameters))
    if unknown:
        known = ", ".join(policy.parameters) or "none"
        raise invalid("parameters", f"{policy.name} has no parameter {unknown[0]!r}; it has {known}")
    merged = {**policy.parameters, **given}
    for name, value in merged.items():
        is_ratio = name.endswith("_ratio")
        if not (0 < value < 1 if is_ratio else 1 <= value <= 1_000_000 and value == int(value)):
            wanted = "a share between 0 and 1" if is_ratio else "a whole number from 1 to 1000000"
            raise invalid(f"parameters.{name}", f"{value} is not {wanted}")
    return merged


def _capacities(capacities: Sequence[int]) -> list[int]:
    if not 0 < len(capacities) <= MOST_CAPACITIES:
        raise invalid("capacities", f"{len(capacities)} of them; one to {MOST_CAPACITIES} are possible")
    sizes = sorted({int(capacity) for capacity in capacities})
    if sizes[0] < 1 or sizes[-1] > UNLIMITED:
        wrong = sizes[0] if sizes[0] < 1 else sizes[-1]
        raise invalid("capacities", f"{wrong} is not between 1 and 2**62")
    return sizes


def _check_reference(*, events: Events, delay_us: int, unit: Unit) -> None:
    """Refuses what the reference simulator has not; it has one order of touches, so `touch` says nothing."""
    if unit is not Unit.BLOCKS:
        raise invalid("unit", "the reference simulator counts blocks")
    if events is not Events.TURN or delay_us:
        raise invalid("events", "the reference simulator has no late writes: turns read and write at once")


def _check(trace: Trace, *, events: Events, delay_us: int, unit: Unit, seed: int) -> None:
    if not 0 <= seed < 2**63:
        raise invalid("seed", f"{seed} is not between 0 and 2**63 - 1")
    if not 0 <= delay_us <= MOST_US:
        raise invalid("delay_us", f"{delay_us} is not between 0 and 2**60")
    if delay_us and events is not Events.READ_WRITE:
        raise invalid("delay_us", "writes can be late only where events is read_write")
    if unit is Unit.BYTES:
        for instance in trace.header.instances:
            if instance.block_bytes < 1:
                raise invalid(
                    "unit", f"the trace does not say how large the blocks of {instance.instance_id!r} are"
                )
    if (np.diff(trace.at_us) < 0).any():
        raise invalid("trace", "its requests are not in order of time")
