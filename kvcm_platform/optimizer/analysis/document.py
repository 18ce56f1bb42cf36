"""The result of a run as JSON: curves with their words, worth, what the pass over the trace gave besides."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from kvcm_platform.core.errors import DomainError
from kvcm_platform.optimizer.analysis.results import BOUND, Found, curve_label, ordered
from kvcm_platform.optimizer.analysis.spec import AnalysisSpec
from kvcm_platform.optimizer.answers.export import curve_document
from kvcm_platform.optimizer.answers.shape import gap_to_bound, index_at
from kvcm_platform.optimizer.answers.thinning import thinned
from kvcm_platform.optimizer.curve import Curve, curve_from_json
from kvcm_platform.optimizer.roi import (
    CostModel,
    Scenario,
    best_of,
    capacity_of_bytes,
    cost_from_json,
    mean_block_bytes,
    rank,
    roi,
    roi_to_json,
    scenario_to_json,
)

POINTS = 600
"""Of one curve: more than a picture has columns."""


def run_document(spec: AnalysisSpec, found: Found, *, points: int = POINTS) -> dict[str, Any]:
    """JSON-ready. A part of it that cannot be said is null, with its reason in `notes`."""
    notes: list[str] = []
    curves = [
        {
            **curve_document(curve_label(policy), thinned(curve, points, keep=_kept(spec, curve))),
            "policy": policy,
            "is_bound": policy == BOUND,
        }
        for policy, curve in ordered(spec, found)
    ]
    return {
        "curves": curves,
        "quota": quota_places(spec, found),
        "gaps": _gaps(found),
        "details": found.details,
        "prefixes": found.prefixes,
        "worth": None if spec.cost is None else _worth(spec, found, notes),
        "notes": notes,
    }


def quota_places(spec: AnalysisSpec, found: Found) -> dict[str, Any] | None:
    """Today's quota in bytes and blocks; None where the run is held against none."""
    if not spec.quota_bytes:
        return None
    blocks = None
    for curve in found.curves.values():
        try:
            blocks = int(spec.quota_bytes / mean_block_bytes(curve))
            break
        except DomainError:
            continue
    return {"bytes": spec.quota_bytes, "blocks": blocks}


def worth_document(found: Found, cost: CostModel, *, points: int = POINTS) -> dict[str, Any]:
    """Money by capacity of every policy, and which instances and types are worth their part of the cache.

    Raises DomainError where the trace knows no sizes, or has no extent in time.
    """
    curves = {}
    for policy, curve in found.curves.items():
        if policy == "ttl" and "mean_resident" not in curve.series:
            continue
        few = thinned(curve, points, keep=_best_place(curve, cost))
        worth = roi(few, cost)
        curves[policy] = {
            **roi_to_json(worth, best_of(few, worth)),
            "capacities": [int(value) for value in few.capacities],
        }
    return {
        "curves": curves,
        "by_instance": [scenario_to_json(one) for one in ranked(found, "by_instance", cost)],
        "by_type": [scenario_to_json(one) for one in ranked(found, "by_type", cost)],
    }


def _best_place(curve: Curve, cost: CostModel) -> list[int]:
    """Thinning must not lose the point that is worth most."""
    index = best_of(curve, roi(curve, cost)).index
    return [] if index < 0 else [index]


def ranked(found: Found, by: str, cost: CostModel) -> list[Scenario]:
    """Instances (`by_instance`) or types (`by_type`): their curves are parts of one LRU cache and are ranked
    within it, at the capacity that is worth most for all of them together (the largest where none is).

    Raises as `roi`.
    """
    parts, total = (found.details or {}).get(by), found.curves.get("lru")
    if not parts or total is None or not len(total.capacities):
        return []
    best = best_of(total, roi(total, cost))
    capacity = best.capacity if best.index >= 0 else int(total.capacities[-1])
    curves = {name or "(no type)": curve_from_json(data) for name, data in parts.items()}
    return rank(curves, cost, shared_capacity=capacity)


def _worth(spec: AnalysisSpec, found: Found, notes: list[str]) -> dict[str, Any] | None:
    try:
        return worth_document(found, cost_from_json(spec.cost or {}))
    except DomainError as error:
        notes.append(f"What it is worth cannot be said: {error.message}")
        return None


def _gaps(found: Found) -> dict[str, Any]:
    """Of each policy to the bound, at the bound's capacities."""
    bound = found.curves.get(BOUND)
    if bound is None:
        return {}
    gaps = {}
    for policy, curve in found.curves.items():
        if policy in (BOUND, "ttl"):
            continue
        try:
            gap = gap_to_bound(curve, bound)
        except DomainError:
            continue
        gaps[policy] = {name: np.asarray(values).tolist() for name, values in asdict(gap).items()}
    return gaps


def _kept(spec: AnalysisSpec, curve: Curve) -> list[int]:
    """Points that a thinned curve keeps: those asked for by number, and the one within today's quota."""
    wanted = [float(wish) for wish in spec.capacities if isinstance(wish, int)]
    if spec.quota_bytes:
        capacity = capacity_of_bytes(curve, spec.quota_bytes)
        wanted += [] if capacity is None else [capacity]
    return [index for index in (index_at(curve, capacity) for capacity in wanted) if index >= 0]
