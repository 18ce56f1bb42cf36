"""The REST and live form of online estimates."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from apps.optimizer_reports.selectors.estimates import EstimateRow


def estimate_shown(row: EstimateRow) -> dict[str, Any]:
    return {
        **asdict(row),
        "kind": row.kind.value,
        "instance_id": row.instance_id or None,
        "points": [asdict(point) for point in row.points],
    }
