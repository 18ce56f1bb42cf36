"""`roi`: what a cache saves and costs, and the best capacity."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson

from kvcm_platform.core.errors import invalid

from ..analysis.capacities import Sizes, capacity_resolve
from ..answers.thinning import at_points, spread
from ..curve import Curve, Touch, Unit
from ..curves import lru_curve
from ..report import Report, Worth, report_text
from ..roi import (
    BestCapacity,
    CostModel,
    Scenario,
    best_of,
    cost_from_json,
    exact_best,
    rank,
    roi,
    roi_to_json,
    scenario_to_json,
    with_block_bytes,
)
from ..trace import Trace
from ..traces import select
from .computing import capacities_of
from .console import bar, print_json, print_text
from .files import facts_of, notes_of
from .opening import opened

_NUMBERS = (
    "gpu_hour_price",
    "effective_flops",
    "prefill_tokens_per_second",
    "measured_prompt_tokens",
    "gpus_per_engine",
    "peak_ratio",
)
_JSON_POINTS = 500


def show(options: argparse.Namespace) -> None:
    """With --json one object: `trace`, `roi` by capacity with its `best`, `scenarios` with --by."""
    cost = cost_of(options)
    trace = with_block_bytes(opened(options), cost.model)
    curve, best = _best(options, trace, cost)
    worth = roi(curve, cost)
    found = scenarios_of(options, trace, cost, options.by) if options.by else []
    if options.json:
        few = spread(curve, _JSON_POINTS, keep=[best.index])
        place = int(np.searchsorted(few, best.index)) if best.index >= 0 else -1
        document: dict[str, Any] = {
            "trace": dict(facts_of(trace)),
            "roi": roi_to_json(roi(at_points(curve, few), cost), replace(best, index=place)),
        }
        if options.by:
            document["scenarios"] = [scenario_to_json(scenario) for scenario in found]
        print_json(document)
        return
    made = Report(
        title=f"Worth: {trace.header.name}",
        lines=(),
        facts=facts_of(trace),
        worth=Worth("LRU", worth, best),
        scenarios=tuple(found),
        notes=notes_of(trace),
    )
    print_text(report_text(made))


def _best(options: argparse.Namespace, trace: Trace, cost: CostModel) -> tuple[Curve, BestCapacity]:
    """The best of the capacities given; of all where none is, counted in blocks."""

    def compute(capacities: Sequence[int] | None) -> Curve:
        with bar(options, "lru") as told:
            return lru_curve(
                trace, capacities, touch=Touch(options.touch), unit=Unit(options.unit), on_progress=told
            )

    if not options.capacities and options.unit == Unit.BLOCKS:
        return exact_best(compute, cost)
    curve = compute(capacities_of(options, trace) if options.capacities else None)
    return curve, best_of(curve, roi(curve, cost))


def scenarios_of(options: argparse.Namespace, trace: Trace, cost: CostModel, by: str) -> list[Scenario]:
    """Every instance or type of requests with a cache of its own, ranked."""
    is_instance = by == "instance"
    all_names = [one.instance_id for one in trace.header.instances] if is_instance else trace.header.types
    names = [all_names[number] for number in np.unique(trace.instance if is_instance else trace.type)]
    curves = {}
    with bar(options, by) as told:
        for done, name in enumerate(names):
            part = select(trace, instances=[name]) if is_instance else select(trace, types=[name])
            curve = lru_curve(part, touch=Touch(options.touch), unit=Unit(options.unit))
            # A part may be asked for in a short time of the trace only: its month is that of the whole.
            curves[name or "(no type)"] = replace(curve, span_us=trace.span_us)
            told((done + 1) / len(names))
    return rank(curves, cost)


def cost_of(options: argparse.Namespace) -> CostModel:
    """The cost model of --cost-model, with what single options say laid over it."""
    data: dict[str, Any] = {}
    if options.cost_model:
        try:
            data = dict(orjson.loads(options.cost_model.read_bytes()))
        except (orjson.JSONDecodeError, TypeError, ValueError) as error:
            raise invalid("cost-model", f"{options.cost_model} is no JSON object: {error}") from error
    for name in (*_NUMBERS, "model", "currency"):
        if getattr(options, name) is not None:
            data[name] = getattr(options, name)
    if options.tier:
        data["tiers"] = [_tier(text) for text in options.tier]
    return cost_from_json(data)


def _tier(text: str) -> dict[str, Any]:
    """NAME:PRICE[:GBPS[:MS[:SIZE]]]"""
    parts = text.split(":")
    if not 2 <= len(parts) <= 5:
        raise invalid("tier", f"NAME:PRICE[:GBPS[:MS[:SIZE]]], not {text!r}")
    tier: dict[str, Any] = {"name": parts[0]}
    for part, name, factor in zip(
        parts[1:4],
        ("price_per_gib_month", "bandwidth_bytes_per_second", "latency_seconds"),
        (1.0, 1e9, 1e-3),
        strict=False,
    ):
        try:
            tier[name] = float(part) * factor
        except ValueError as error:
            raise invalid("tier", f"{part!r} in {text!r} is no number") from error
    if len(parts) == 5:
        tier["capacity_bytes"] = capacity_resolve(parts[4], Sizes(0, 0, 0), Unit.BYTES, "tier")
    return tier
