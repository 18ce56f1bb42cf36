"""Carries one job of an analysis out, over a trace that was read before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.optimizer.analysis.capacities import (
    Wish,
    capacities_resolve,
    capacity_resolve,
    sizes_of,
)
from kvcm_platform.optimizer.analysis.plan import JobPlan, Part, plan_from_json
from kvcm_platform.optimizer.analysis.spec import AnalysisSpec, spec_from_json
from kvcm_platform.optimizer.answers.hot_prefixes import hot_prefixes
from kvcm_platform.optimizer.answers.thinning import at_points, curves_merge, spread, thinned
from kvcm_platform.optimizer.curve import Curve, Events, Progress, Touch, Unit, curve_to_json, progress_part
from kvcm_platform.optimizer.curves import (
    belady_curve,
    lru_analysis,
    lru_curve,
    tier_capacities,
    tiers,
    ttl_curve,
)
from kvcm_platform.optimizer.curves.sampling import SEEDS, sampled_curve
from kvcm_platform.optimizer.policies import simulate
from kvcm_platform.optimizer.roi import cost_from_json, exact_best
from kvcm_platform.optimizer.trace import Trace
from kvcm_platform.optimizer.traces import TraceReadError, open_trace, part_of

_TOTAL_POINTS = 4000
_PART_POINTS = 200
"""Of the curve of one instance or type."""
_WINDOW_POINTS = 48
_MOST_PARTS = 200


def analyse(arguments: Mapping[str, Any], tell: Progress) -> dict[str, Any]:
    """`arguments`: trace (path of its columns), spec, plan. Returns what `results.found_of` puts together.

    Raises DomainError for what the trace cannot answer.
    """
    spec, plan = spec_from_json(arguments["spec"]), plan_from_json(arguments["plan"])
    try:
        trace = scoped(open_trace(Path(arguments["trace"])), spec)
    except TraceReadError as error:
        code = Code.INVALID_ARGUMENT if error.code == "bad_option" else Code.CONFLICT
        raise DomainError(code, str(error), field="trace") from error
    result = _PARTS[plan.part](trace, spec, plan, tell)
    return {"policy": plan.policy, "title": plan.title, "part": plan.part.value, **result}


def scoped(trace: Trace, spec: AnalysisSpec) -> Trace:
    """The part of the trace that the analysis is about."""
    return part_of(
        trace,
        instances=spec.instances,
        types=spec.types,
        begin_seconds=spec.begin_seconds,
        end_seconds=spec.end_seconds,
    )


def _answers(trace: Trace, spec: AnalysisSpec, plan: JobPlan, tell: Progress) -> dict[str, Any]:
    found = asdict(hot_prefixes(trace, nodes=spec.hot_prefixes))
    # Keys have more digits than a browser's numbers.
    nodes = [{**node, "first_key": str(node["first_key"])} for node in found["nodes"]]
    tell(1.0)
    return {"prefixes": {**found, "nodes": nodes}}


def _belady(trace: Trace, spec: AnalysisSpec, plan: JobPlan, tell: Progress) -> dict[str, Any]:
    capacities = capacities_resolve(plan.capacities, sizes_of(trace), spec.unit)
    return {"curve": curve_to_json(belady_curve(trace, capacities, unit=Unit(spec.unit), on_progress=tell))}


def _ttl(trace: Trace, spec: AnalysisSpec, plan: JobPlan, tell: Progress) -> dict[str, Any]:
    ttls = [round(seconds * 1e6) for seconds in spec.ttl_seconds] or None
    return {"curve": curve_to_json(thinned(ttl_curve(trace, ttls, on_progress=tell), _TOTAL_POINTS))}


def _simulate(trace: Trace, spec: AnalysisSpec, plan: JobPlan, tell: Progress) -> dict[str, Any]:
    capacities = capacities_resolve(plan.capacities, sizes_of(trace), spec.unit)
    curve = simulate(
        trace,
        plan.policy,
        capacities,
        touch=Touch(spec.touch),
        events=Events(spec.events),
        delay_us=round(spec.delay_seconds * 1e6),
        unit=Unit(spec.unit),
        seed=spec.seed,
        on_progress=tell,
        parameters=(spec.parameters or {}).get(plan.policy),
    )
    return {"curve": curve_to_json(curve)}


def _lru(trace: Trace, spec: AnalysisSpec, plan: JobPlan, tell: Progress) -> dict[str, Any]:
    """One pass for the parts and a fine curve, and one that is exact at the capacities asked for."""
    if spec.is_sampled:
        return _sampled(trace, spec, tell)
    found = lru_analysis(
        trace,
        windows_us=-(-(trace.span_us + 1) // spec.windows) if spec.windows else 0,
        by=_parts_shown(trace),
        touch=Touch(spec.touch),
        unit=Unit(spec.unit),
        on_progress=progress_part(tell, 0, 0.7),
    )
    pairs = _pairs(trace, spec)
    wanted = {
        *capacities_resolve(_asked(trace, spec), sizes_of(trace), spec.unit),
        *tier_capacities(pairs),
        *_best_capacity(trace, spec, found.total),
    }
    total, splits = found.total, []
    if wanted:
        exact = lru_curve(
            trace,
            sorted(wanted),
            touch=Touch(spec.touch),
            unit=Unit(spec.unit),
            on_progress=progress_part(tell, 0.7, 1),
        )
        splits = [split.to_json() for split in tiers(exact, pairs)] if pairs else []
        total = curves_merge([exact, thinned(total, _TOTAL_POINTS)])
    tell(1.0)
    parts = found.to_json()
    return {
        "curve": curve_to_json(total),
        "details": {
            "by_instance": _thin_parts(found.by_instance),
            "by_type": _thin_parts(found.by_type),
            "windows": [
                {
                    "begin_us": window.begin_us,
                    "end_us": window.end_us,
                    "curve": curve_to_json(thinned(window.curve, _WINDOW_POINTS)),
                }
                for window in found.windows
            ],
            **{
                name: parts[name] for name in ("reuse_distance", "reuse_time", "access_counts", "working_set")
            },
            "tiers": splits,
        },
    }


def _best_capacity(trace: Trace, spec: AnalysisSpec, total: Curve) -> list[int]:
    """The capacity that is worth most of all, which need not be a point of the curve; none where nothing is
    known of worth."""
    if spec.cost is None or spec.unit != Unit.BLOCKS:
        return []

    def compute(capacities: Sequence[int] | None) -> Curve:
        return total if capacities is None else lru_curve(trace, capacities, touch=Touch(spec.touch))

    try:
        best = exact_best(compute, cost_from_json(spec.cost))[1]
    except DomainError:
        # The document of the run says why.
        return []
    return [best.capacity] if best.index >= 0 else []


def _sampled(trace: Trace, spec: AnalysisSpec, tell: Progress) -> dict[str, Any]:
    """Several samples; what they differ by is told with the result."""
    wanted = capacities_resolve(_asked(trace, spec), sizes_of(trace), spec.unit) or None
    first = spec.seed * len(SEEDS)
    found = sampled_curve(
        trace,
        wanted,
        seeds=[first + seed for seed in SEEDS],
        unit=Unit(spec.unit),
        on_progress=tell,
    )
    places = spread(found.curve, _TOTAL_POINTS)
    return {
        "curve": curve_to_json(at_points(found.curve, places)),
        "details": {
            "sampled": {
                "low": found.low[places].tolist(),
                "high": found.high[places].tolist(),
                "seeds": list(found.seeds),
                "spread": found.spread,
                "sampled_ratio": found.sampled_ratio,
            }
        },
    }


def _asked(trace: Trace, spec: AnalysisSpec) -> list[Wish]:
    """The capacities named, and today's quota where it has a place among them."""
    wishes = list(spec.capacities)
    if spec.quota_bytes and (spec.unit == Unit.BYTES or sizes_of(trace).block_bytes):
        wishes.append(f"{spec.quota_bytes}B")
    return wishes


def _pairs(trace: Trace, spec: AnalysisSpec) -> list[tuple[int, int]]:
    sizes = sizes_of(trace)
    return [
        (
            capacity_resolve(first, sizes, spec.unit, "tiers"),
            capacity_resolve(second, sizes, spec.unit, "tiers"),
        )
        for first, second in spec.tiers
    ]


def _parts_shown(trace: Trace) -> list[str]:
    """Kinds of parts of which there are more than one, and not too many to look at."""
    used = {
        "instance": len(trace.header.instances),
        "type": len(trace.header.types),
    }
    return [kind for kind, count in used.items() if 1 < count <= _MOST_PARTS]


def _thin_parts(curves: Mapping[str, Curve]) -> dict[str, Any]:
    return {
        name: curve_to_json(thinned(curve, _PART_POINTS)) for name, curve in curves.items() if curve.requests
    }


_PARTS = {
    Part.ANSWERS: _answers,
    Part.LRU: _lru,
    Part.TTL: _ttl,
    Part.BELADY: _belady,
    Part.SIMULATE: _simulate,
}
