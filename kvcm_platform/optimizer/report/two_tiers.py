"""What two tiers would serve, in rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..curve import Curve
from .content import Table
from .tables import capacity_text

_COLUMNS = (
    *("tier 1", "tier 2", "hits of tier 1", "hits of tier 2", "blocks moved down"),
    "tier 2, inclusive",
)
_NOTE = (
    "Blocks that leave tier 1 go to tier 2 and come back when they are used; inclusive: every use "
    "refreshes both. Not for a tier 2 that sees the misses of tier 1 only."
)


def splits_table(splits: Sequence[Mapping[str, Any]], curve: Curve) -> Table:
    """Of `TierSplit.to_json`; hits are shares of the blocks that the LRU `curve` was asked for."""

    def share(blocks: int) -> str:
        return f"{blocks / max(1, curve.blocks):.2%}"

    rows = tuple(
        (
            capacity_text(curve, split["capacity1"]),
            capacity_text(curve, split["capacity2"]),
            share(split["tier1"]["blocks"]),
            share(split["tier2"]["blocks"]),
            f"{split['demoted_blocks']:,}",
            share(split["inclusive_tier2"]["blocks"]),
        )
        for split in splits
    )
    return Table("Two tiers", _COLUMNS, rows, (True,) * len(_COLUMNS), _NOTE)
