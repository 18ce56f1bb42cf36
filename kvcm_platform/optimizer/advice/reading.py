"""What advice is worked out of, and how it is read off a curve. Pure.

A group's blocks lie between its marks: reclaim begins at the high one and ends at the low one, so the
capacity that its hit rate follows from is the mean of the two, not the quota. Curves are exact at their
capacities and do not fall between them, so what is read off is never more than what is reached.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kvcm_platform.optimizer.advice_kinds import AdviceKind
from kvcm_platform.optimizer.curve import Curve, Float64
from kvcm_platform.optimizer.roi import capacity_bytes, hit_bytes

LEAST_GAIN = 0.01
"""Of a hit rate; what is less is noise of the trace."""
LEAST_QUOTA_CHANGE = 0.1
LEAST_MONEY_GAIN = 0.02
"""Of what is saved and paid now together."""


@dataclass(frozen=True, slots=True)
class GroupNow:
    """The settings that are judged. Ratios are shares of the quota; a high one above 1 = never by itself.

    `per_type` are the limits of storage types, the fastest type first. `peak_written_bytes_per_second` and
    `delay_seconds` (before a deletion) bound how much room writes need above the high mark; a rate of 0 =
    not known.
    """

    name: str
    quota_bytes: int
    high_ratio: float
    low_ratio: float
    policy: str = "lru"
    per_type: Mapping[str, int] = field(default_factory=dict)
    peak_written_bytes_per_second: float = 0.0
    delay_seconds: float = 1.0

    @property
    def mean_ratio(self) -> float:
        return mean_ratio(self.high_ratio, self.low_ratio)

    @property
    def resident_bytes(self) -> float:
        """What it holds on average once it is full."""
        return self.quota_bytes * self.mean_ratio


@dataclass(frozen=True, slots=True)
class Curves:
    """What a run found, each of the whole group's traffic; `block_bytes` where the trace does not say it.

    `by_policy` are of policies that the platform has, `lru` among them. `by_instance` are the hits of each
    instance in the cache that all share.
    """

    by_policy: Mapping[str, Curve]
    by_instance: Mapping[str, Curve] = field(default_factory=dict)
    block_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """One recommendation.

    `changes` are members of the group's settings as REST has them; None = it only tells.
    """

    kind: AdviceKind
    sentence: str
    figures: Mapping[str, Any]
    changes: Mapping[str, Any] | None = None
    instance_id: str = ""


class HitRates:
    """Hit rates by bytes held, read off a curve from below."""

    def __init__(self, curve: Curve, block_bytes: float | None = None) -> None:
        """Raises DomainError where the size of blocks is not known."""
        self.bytes: Float64 = capacity_bytes(curve, block_bytes)
        self.rates: Float64 = curve.hit_rate
        self.hit_bytes: Float64 = hit_bytes(curve, block_bytes)
        self.unlimited = curve.unlimited_hit_blocks / max(1, curve.blocks)

    def place(self, held: float) -> int | None:
        """Of the largest capacity that fits; None = even the smallest does not."""
        at = int(np.searchsorted(self.bytes, held, side="right")) - 1
        return None if at < 0 else at

    def at(self, held: float) -> float:
        place = self.place(held)
        return 0.0 if place is None else float(self.rates[place])


def mean_ratio(high: float, low: float) -> float:
    """The share of a quota that is held on average between two marks."""
    high = min(high, 1.0)
    return (high + min(low, high)) / 2


def rounded_up(size: float) -> int:
    """To the next 64th of its power of two: figures that can be read, at most 1.6 % more."""
    if size <= 64:
        return math.ceil(size)
    unit = 1 << (math.floor(math.log2(size)) - 6)
    return math.ceil(size / unit) * unit
