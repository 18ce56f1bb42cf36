"""What the hit rate of a group would be with less and with more capacity, from sampled live traffic.

The group's instances share one LRU stack, as they share one quota. A query is taken as a turn: it uses its
whole prompt, which is brought if it was not there; a Start brings its blocks, also where the real cache had
no room for them. Hits are counted at FACTORS of the present capacity, over a sliding window. Of the blocks
asked for, all are counted; which share of them hits is what the sampled ones of the same class of depth
say (core.sampling), so that long prompts are not judged by the short ones that happen to be sampled.

While the stack has dropped nothing, a block that it does not know and that was really found was there
before it began: it counts as found from the present capacity on. Later such blocks are misses: what the
policy modelled here would not have kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kvcm_platform.core import sampling
from kvcm_platform.optimizer.online_stack import carry_on

FACTORS = (0.5, 1.0, 2.0, 4.0)
"""Of the present capacity."""
PRESENT = FACTORS.index(1.0)
MOST_BLOCKS = 1 << 16
"""Sampled blocks that a stack has at most."""
ROOM_FACTOR = 1.05
"""Blocks farther down than this times the largest capacity are dropped: they are misses everywhere."""
SPAN_MS = 60_000
"""Counts are kept by minute."""
WINDOW_SPANS = 15
MOST_OWNERS = 1 << 15
"""Instances that a stack tells apart; calls of more are left out."""
PORTION_BLOCKS = 1 << 18


class Traffic(Protocol):
    """Sampled calls of a group's instances (kvcm_platform.index.request_entries.SampledCalls)."""

    @property
    def at_ms(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def asked(self) -> NDArray[np.int64]: ...
    @property
    def hits(self) -> NDArray[np.int64]: ...
    @property
    def ids(self) -> NDArray[np.uint64]: ...
    @property
    def flags(self) -> NDArray[np.uint8]: ...
    @property
    def counts(self) -> NDArray[np.uint32]: ...
    @property
    def instance(self) -> NDArray[np.uint16]: ...
    @property
    def kinds(self) -> NDArray[np.uint8]: ...


@dataclass(slots=True)
class Counts:
    """Of one instance in one minute. By class of depth: `asked`, all blocks; `sampled` and `hits` (classes ×
    FACTORS), blocks that sampled ones stand for. `real_hits` were found in the real cache."""

    asked: NDArray[np.int64] = field(default_factory=lambda: np.zeros(sampling.CLASSES, np.int64))
    real_hits: int = 0
    sampled: NDArray[np.float64] = field(default_factory=lambda: np.zeros(sampling.CLASSES))
    hits: NDArray[np.float64] = field(default_factory=lambda: np.zeros((sampling.CLASSES, len(FACTORS))))

    def add(self, other: Counts) -> None:
        self.asked += other.asked
        self.real_hits += other.real_hits
        self.sampled += other.sampled
        self.hits += other.hits


@dataclass(frozen=True, slots=True)
class Estimate:
    """Blocks over the window. `hit_blocks` at FACTORS of the capacity; `real_hit_blocks` were found."""

    asked_blocks: int
    real_hit_blocks: int
    hit_blocks: tuple[float, ...]

    @property
    def hit_rates(self) -> tuple[float, ...] | None:
        """None where nothing was asked for."""
        if not self.asked_blocks:
            return None
        return tuple(min(1.0, hits / self.asked_blocks) for hits in self.hit_blocks)


@dataclass(slots=True)
class OnlineStack:
    """The state of one group; `online_form.py` writes it down. Owners are numbers of instances."""

    k: int = 0
    capacity_bytes: int = 0
    since_ms: int = 0
    """When it began, empty."""
    has_dropped: bool = False
    owners: list[int] = field(default_factory=list)
    ids: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64))
    """The sampled blocks, least recent first."""
    classes: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    owner_of: NDArray[np.uint16] = field(default_factory=lambda: np.zeros(0, np.uint16))
    window: dict[int, dict[int, Counts]] = field(default_factory=dict)
    """Minute (unix ms // SPAN_MS) -> owner -> counts."""

    def set_capacity(self, capacity_bytes: int, now_ms: int) -> None:
        """Counts of another capacity say nothing of this one. What was dropped beyond the old one is missed
        until it is used again, so the stack begins anew where the capacity grew past what it has."""
        if capacity_bytes == self.capacity_bytes:
            return
        if self.has_dropped and capacity_bytes > self.capacity_bytes:
            self.restart(self.k, now_ms)
        self.window.clear()
        self.capacity_bytes = capacity_bytes

    def restart(self, k: int, now_ms: int) -> None:
        """Empty again, at another rate."""
        self.k, self.since_ms, self.has_dropped = k, now_ms, False
        self.owners, self.window = [], {}
        self.ids, self.classes, self.owner_of = self.ids[:0], self.classes[:0], self.owner_of[:0]

    def add(
        self, traffic: Sequence[Traffic], owners: Sequence[Sequence[int]], block_bytes: Mapping[int, int]
    ) -> None:
        """Lets calls use the stack, in order. `owners` names each entry's instances by number.

        `block_bytes` by number; calls of instances that are not in it are left out.
        """
        pairs = list(zip(traffic, owners, strict=True))
        for minute, part in groupby(pairs, lambda pair: pair[0].at_ms // SPAN_MS):
            for some in _portions(list(part)):
                self.thin(max(self.k, *(one.k for one, _ in some)))
                self._add(minute, some, block_bytes)
                self.trim(block_bytes)
        newest = max(self.window, default=0)
        self.window = {at: row for at, row in self.window.items() if newest - WINDOW_SPANS <= at}

    def _add(
        self, minute: int, pairs: Sequence[tuple[Traffic, Sequence[int]]], block_bytes: Mapping[int, int]
    ) -> None:
        self._name({number for _, numbers in pairs for number in numbers if number in block_bytes})
        place = {number: at for at, number in enumerate(self.owners) if number in block_bytes}
        parts = [_of_owners(one, numbers, place, self.k) for one, numbers in pairs]
        calls = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
        sampled = np.zeros((len(self.owners), sampling.CLASSES))
        hits = np.zeros((len(self.owners), sampling.CLASSES, len(FACTORS)))
        state = carry_on(
            *(self.ids, self.classes, self.owner_of, *calls),
            *(sampling.weights(self.k).astype(np.float64), self._bytes(block_bytes)),
            np.array([self.capacity_bytes * factor for factor in FACTORS]),
            len(FACTORS) if self.has_dropped else PRESENT,
            sampled,
            hits,
        )
        self.ids, self.classes, self.owner_of = state
        row = self.window.setdefault(minute, {})
        for one, numbers in pairs:
            for number, asked, real_hits in zip(numbers, one.asked, one.hits, strict=True):
                if number in place and asked.any():
                    row.setdefault(number, Counts()).add(Counts(asked, int(real_hits)))
        for number, at in place.items():
            if number in row:
                row[number].add(Counts(sampled=sampled[at], hits=hits[at]))

    def _name(self, numbers: Collection[int]) -> None:
        """Gives owners a place. Of too many, those that have nothing in the stack lose theirs."""
        missing = sorted(set(numbers) - set(self.owners))
        if len(self.owners) + len(missing) > MOST_OWNERS:
            used = np.unique(self.owner_of)
            self.owner_of = np.searchsorted(used, self.owner_of).astype(np.uint16)
            self.owners = [self.owners[at] for at in used]
            missing = sorted(set(numbers) - set(self.owners))[: MOST_OWNERS - len(self.owners)]
        self.owners += missing

    def _bytes(self, block_bytes: Mapping[int, int]) -> NDArray[np.float64]:
        """By place of the owner; blocks of one that is gone take no room any more."""
        return np.array([block_bytes.get(number, 0) for number in self.owners], dtype=np.float64)

    def _keep(self, kept: Any) -> None:
        self.ids, self.classes, self.owner_of = self.ids[kept], self.classes[kept], self.owner_of[kept]

    def thin(self, k: int) -> None:
        """Goes on with fewer blocks, each of which stands for more."""
        if k > self.k:
            self.k = k
            self._keep(sampling.is_sampled(self.ids, self.classes, k))

    def trim(self, block_bytes: Mapping[int, int]) -> None:
        """Drops what is too far down to be found anywhere, and thins what is left to MOST_BLOCKS."""
        self._keep(np.isin(self.owner_of, [at for at, one in enumerate(self.owners) if one in block_bytes]))
        below = self._above(block_bytes) > self.capacity_bytes * FACTORS[-1] * ROOM_FACTOR
        if below.any():
            self.has_dropped = True
            self._keep(~below)
        while len(self.ids) > MOST_BLOCKS and self.k < sampling.MOST_BITS:
            self.thin(self.k + 1)

    def _above(self, block_bytes: Mapping[int, int]) -> NDArray[np.float64]:
        """By block: bytes of all that were used after it."""
        own = sampling.weights(self.k)[self.classes] * self._bytes(block_bytes)[self.owner_of]
        return np.asarray(np.cumsum(own[::-1])[::-1] - own, dtype=np.float64)

    def unique_blocks(self, block_bytes: Mapping[int, int]) -> tuple[int, ...]:
        """By FACTORS of the capacity: how many distinct blocks such a cache holds now."""
        above = self._above(block_bytes)
        weights = sampling.weights(self.k)[self.classes]
        return tuple(int(weights[above < self.capacity_bytes * factor].sum()) for factor in FACTORS)

    def estimates(self, now_ms: int, spans: int = WINDOW_SPANS) -> dict[int, Estimate]:
        """By owner: the minute that runs and the `spans` before it; who asked for nothing is not there."""
        totals: dict[int, Counts] = {}
        for minute, row in self.window.items():
            if now_ms // SPAN_MS - spans <= minute:
                for number, counts in row.items():
                    totals.setdefault(number, Counts()).add(counts)
        return {number: _estimate(counts) for number, counts in totals.items()}


Pair = tuple[Traffic, Sequence[int]]
"""An entry, and its instances by number."""


def _portions(pairs: list[Pair]) -> Iterator[list[Pair]]:
    """Entries that are worked on together: memory and time of one step are bounded."""
    begin = blocks = 0
    for at, (one, _) in enumerate(pairs):
        blocks += len(one.ids)
        if blocks >= PORTION_BLOCKS:
            yield pairs[begin : at + 1]
            begin, blocks = at + 1, 0
    if begin < len(pairs):
        yield pairs[begin:]


def _of_owners(
    one: Traffic, numbers: Sequence[int], place: Mapping[int, int], k: int
) -> tuple[NDArray[Any], ...]:
    """Kinds, owners, counts, blocks and flags of an entry's calls, but for those of unknown owners."""
    owner_of = np.array([place.get(number, -1) for number in numbers], dtype=np.int64)
    call_owner = owner_of[one.instance]
    of_call = np.repeat(np.arange(len(one.counts)), one.counts)
    kept = call_owner[of_call] >= 0
    if one.k < k:
        kept &= sampling.is_sampled(one.ids, one.flags & np.uint8(sampling.CLASS_MASK), k)
    counts = np.bincount(of_call[kept], minlength=len(one.counts)).astype(np.uint32)
    calls = np.flatnonzero(call_owner >= 0)
    return (
        one.kinds[calls],
        call_owner[calls].astype(np.uint16),
        counts[calls],
        one.ids[kept],
        one.flags[kept],
    )


def _estimate(counts: Counts) -> Estimate:
    """The share of hits among the sampled blocks of a class, times all of it."""
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = counts.hits / counts.sampled[:, None]
        overall = counts.hits.sum(axis=0) / counts.sampled.sum()
    # Of a class without samples nothing is known: it is judged like the others.
    shares = np.where(counts.sampled[:, None] > 0, shares, np.nan_to_num(overall))
    hits = (shares * counts.asked[:, None]).sum(axis=0)
    return Estimate(int(counts.asked.sum()), counts.real_hits, tuple(float(one) for one in hits))


def together(estimates: Mapping[int, Estimate]) -> Estimate:
    """Of all instances of a group."""
    hits = np.sum([(0.0,) * len(FACTORS), *(one.hit_blocks for one in estimates.values())], axis=0)
    return Estimate(
        sum(one.asked_blocks for one in estimates.values()),
        sum(one.real_hit_blocks for one in estimates.values()),
        tuple(float(one) for one in hits),
    )
