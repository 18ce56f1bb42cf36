"""What was done in a time, as figures that are shown: sums, rates of hits, latencies. Pure."""

from __future__ import annotations

from typing import Any

from kvcm_platform.core.points import COUNT_NAMES, Amounts
from kvcm_platform.index.facts import quantile_ms

QUANTILES = {"p50_ms": 0.5, "p99_ms": 0.99}
RATE_NAMES = ("hit_rate", "token_hit_rate")
LATENCY_NAMES = tuple(f"{kind}_{name}" for kind in ("read", "write") for name in QUANTILES)


def amounts_form(amounts: Amounts) -> dict[str, Any]:
    """COUNT_NAMES, RATE_NAMES and LATENCY_NAMES; rates and latencies are None where nothing was asked.

    A latency is the upper bound of the bucket that it lies in.
    """
    return {
        **dict(zip(COUNT_NAMES, amounts.counts(), strict=True)),
        "hit_rate": _share(amounts.hit_blocks, amounts.requested_blocks),
        "token_hit_rate": _share(amounts.hit_tokens, amounts.requested_tokens),
        **{
            f"{kind}_{name}": quantile_ms(buckets, share)
            for kind, buckets in (("read", amounts.read_us), ("write", amounts.write_us))
            for name, share in QUANTILES.items()
        },
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
