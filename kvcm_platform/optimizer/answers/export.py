"""Curves as tables and JSON for other programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kvcm_platform.core.errors import DomainError

from ..curve import Curve, Float64, curve_to_json
from ..roi.sizes import capacity_bytes
from .definition import definition_text
from .shape import knee, marginal_hit_rate_per_gib

COLUMNS = (
    "label",
    "policy",
    "unit",
    "capacity",
    "capacity_bytes",
    "hit_rate",
    "token_hit_rate",
    "hit_blocks",
    "hit_tokens",
    "hit_bytes",
    "full_hit_requests",
    "requests",
    "blocks",
    "tokens",
    "marginal_hit_rate_per_gib",
)
SERIES_COLUMNS = ("orphan_share", "mean_resident", "evicted_blocks")


def curves_csv(curves: Iterable[tuple[str, Curve]], *, block_bytes: float | None = None) -> str:
    """One line a point of each (label, curve), after a line of COLUMNS and SERIES_COLUMNS.

    `capacity` is in the curve's unit, for `ttl` in microseconds; what is not known is empty. A label that a
    spreadsheet would take for a formula is quoted with an apostrophe.
    """
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow([*COLUMNS, *SERIES_COLUMNS])
    for label, curve in curves:
        lines.writerows(_rows(_harmless(label), curve, block_bytes))
    return text.getvalue()


def curve_document(label: str, curve: Curve, *, block_bytes: float | None = None) -> dict[str, Any]:
    """JSON-ready: the curve, how it was counted in words, its rates, its knee and the sizes of its points."""
    sizes = bytes_or_none(curve, block_bytes)
    found = knee(curve)
    return {
        "label": label,
        "definition_text": definition_text(curve.definition),
        "curve": curve_to_json(curve),
        "hit_rate": curve.hit_rate.tolist(),
        "token_hit_rate": curve.token_hit_rate.tolist(),
        "unlimited_hit_rate": curve.unlimited_hit_blocks / max(1, curve.blocks),
        "compulsory_misses": curve.blocks - curve.unlimited_hit_blocks,
        "capacity_bytes": None if sizes is None else sizes.tolist(),
        "marginal_hit_rate_per_gib": None
        if sizes is None
        else marginal_hit_rate_per_gib(curve, sizes).tolist(),
        "knee": None if found is None else {"capacity": found.capacity, "hit_rate": found.hit_rate},
    }


def bytes_or_none(curve: Curve, block_bytes: float | None = None) -> Float64 | None:
    """`capacity_bytes`, or None where the size of blocks is not known."""
    try:
        return capacity_bytes(curve, block_bytes)
    except DomainError:
        return None


def _rows(label: str, curve: Curve, block_bytes: float | None) -> Iterable[Sequence[object]]:
    sizes = bytes_or_none(curve, block_bytes)
    marginal = None if sizes is None else marginal_hit_rate_per_gib(curve, sizes)
    for i in range(len(curve.capacities)):
        yield [
            label,
            curve.definition.policy,
            "us" if curve.definition.policy == "ttl" else str(curve.definition.unit),
            int(curve.capacities[i]),
            "" if sizes is None else int(np.rint(sizes[i])),
            f"{curve.hit_rate[i]:.6f}",
            f"{curve.token_hit_rate[i]:.6f}",
            int(curve.hit_blocks[i]),
            int(curve.hit_tokens[i]),
            int(curve.hit_bytes[i]) if curve.bytes else "",
            int(curve.full_hit_requests[i]),
            curve.requests,
            curve.blocks,
            curve.tokens,
            "" if marginal is None else f"{marginal[i]:.6g}",
            *(_of_series(curve, name, i) for name in SERIES_COLUMNS),
        ]


def _of_series(curve: Curve, name: str, index: int) -> str:
    values = curve.series.get(name)
    return "" if values is None or index >= len(values) else f"{values[index]:.6g}"


def _harmless(label: str) -> str:
    return f"'{label}" if label[:1] in {"=", "+", "-", "@", "\t", "\r"} else label
