"""What the jobs of an analysis found, put together again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kvcm_platform.optimizer.curve import Curve, curve_from_json

BOUND = "belady"


@dataclass(frozen=True, slots=True)
class Found:
    """`curves` are by policy, the capacities of all its jobs together; `details` what the one pass over the
    trace gave besides; `prefixes` the hot ones. Both are None where their job is not done.
    """

    curves: Mapping[str, Curve]
    details: Mapping[str, Any] | None
    prefixes: Mapping[str, Any] | None


def found_of(results: Iterable[Mapping[str, Any]]) -> Found:
    """Out of what `work.analyse` gave for each job, in any order."""
    pieces: dict[str, list[Curve]] = {}
    details: Mapping[str, Any] | None = None
    prefixes: Mapping[str, Any] | None = None
    for result in results:
        if result.get("curve"):
            pieces.setdefault(result["policy"], []).append(curve_from_json(result["curve"]))
        details = result.get("details") or details
        prefixes = result.get("prefixes") or prefixes
    return Found({policy: curves_merge(found) for policy, found in pieces.items()}, details, prefixes)


def curves_merge(curves: Sequence[Curve]) -> Curve:
    """One curve with the capacities of all, of one policy and trace; of equal ones the first counts."""
    first = curves[0]
    if len(curves) == 1:
        return first
    capacities, at = np.unique(np.concatenate([curve.capacities for curve in curves]), return_index=True)

    def column(name: str) -> Any:
        return np.concatenate([getattr(curve, name) for curve in curves])[at]

    names = [name for name in first.series if all(name in curve.series for curve in curves)]
    whole = [name for name in names if all(len(c.series[name]) == len(c.capacities) for c in curves)]
    return replace(
        first,
        capacities=capacities,
        **{
            name: column(name)
            for name in ("hit_blocks", "hit_tokens", "hit_bytes", "hit_token_positions", "full_hit_requests")
        },
        series={name: np.concatenate([curve.series[name] for curve in curves])[at] for name in whole},
    )


def curve_label(policy: str) -> str:
    """How a curve is called in pictures and tables."""
    return "clairvoyant bound" if policy == BOUND else policy
