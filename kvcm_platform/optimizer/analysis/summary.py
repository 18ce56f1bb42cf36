"""The headline figures of a run: what lists, live pages and advice need without the curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kvcm_platform.core.errors import DomainError
from kvcm_platform.optimizer.analysis.results import BOUND, Found, found_of, ordered
from kvcm_platform.optimizer.analysis.spec import AnalysisSpec
from kvcm_platform.optimizer.answers.shape import index_at, knee
from kvcm_platform.optimizer.curve import Curve
from kvcm_platform.optimizer.roi import best_capacity, best_to_json, capacity_of_bytes, cost_from_json

_POINTS = 24


def summarise(spec: AnalysisSpec, results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """JSON-ready. `policies` are in the order asked for, the bound last; rates are of blocks, 0..1."""
    found = found_of(results)
    policies = [_policy(spec, name, curve) for name, curve in ordered(spec, found)]
    real = [row for row in policies if row["policy"] not in (BOUND, "ttl")]
    best = max(real, key=lambda row: row["hit_rate_at_quota"] or 0.0, default=None)
    at_quota = best is not None and best["hit_rate_at_quota"] is not None
    return {
        "unlimited_hit_rate": _unlimited(found),
        "quota_bytes": spec.quota_bytes,
        "best_policy_at_quota": best["policy"] if best is not None and at_quota else None,
        "policies": policies,
    }


def _unlimited(found: Found) -> float | None:
    rates = [curve.unlimited_hit_blocks / max(1, curve.blocks) for curve in found.curves.values()]
    return max(rates, default=None)


def _policy(spec: AnalysisSpec, name: str, curve: Curve) -> dict[str, Any]:
    turn = knee(curve)
    at = _quota_index(spec, curve)
    return {
        "policy": name,
        "unit": "us" if name == "ttl" else curve.definition.unit,
        "points": _points(curve),
        "knee": None if turn is None else {"capacity": turn.capacity, "hit_rate": turn.hit_rate},
        "hit_rate_at_quota": None if at is None else float(curve.hit_rate[at]),
        "token_hit_rate_at_quota": None if at is None else float(curve.token_hit_rate[at]),
        "best": _best(spec, curve),
    }


def _points(curve: Curve) -> list[list[float]]:
    """[capacity, hit rate], at most _POINTS of them, evenly among the curve's own."""
    count = len(curve.capacities)
    step = max(1, -(-count // _POINTS))
    places = sorted({*range(0, count, step), count - 1}) if count else []
    return [[int(curve.capacities[place]), round(float(curve.hit_rate[place]), 6)] for place in places]


def _quota_index(spec: AnalysisSpec, curve: Curve) -> int | None:
    """The point that today's quota reaches; None where it is not known in the unit of the curve."""
    quota = capacity_of_bytes(curve, spec.quota_bytes) if spec.quota_bytes else None
    index = -1 if quota is None else index_at(curve, quota)
    return index if index >= 0 else None


def _best(spec: AnalysisSpec, curve: Curve) -> dict[str, Any] | None:
    if spec.cost is None or curve.definition.policy in ("ttl", BOUND):
        return None
    try:
        return best_to_json(best_capacity(curve, cost_from_json(spec.cost)))
    except DomainError as error:
        return {"reason": error.message}
