"""What the jobs of an analysis found, put together again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kvcm_platform.optimizer.analysis.spec import AnalysisSpec
from kvcm_platform.optimizer.answers.thinning import curves_merge
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


def ordered(spec: AnalysisSpec, found: Found) -> list[tuple[str, Curve]]:
    """Curves by policy as asked for; the bound, which is added unasked, last."""
    names = [*spec.policies, *(name for name in found.curves if name not in spec.policies)]
    return [(name, found.curves[name]) for name in names if name in found.curves]


def curve_label(policy: str) -> str:
    """How a curve is called in pictures and tables."""
    return "clairvoyant bound" if policy == BOUND else policy
