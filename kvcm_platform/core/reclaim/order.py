"""Which blocks go first: runs by their last use, inside a chain of one request from its deepest block.

A run (DESIGN 4.1) has one place in the recency order: the tick of its last use, and within a tick the
deepest first. All that one request used has one tick, so the runs of an instance with the same tick are
a *chain*: it is cut from its end, and nothing goes that a block which stays depends on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

TICK = 4096
"""A score is the ms of the last use in these steps, and within one what is left of the depth."""
_ORDINAL = 0xFFF


@dataclass(frozen=True, slots=True)
class RunView:
    """One run as it was looked at: what of it may go."""

    instance: int
    """Number of the instance."""
    shard: int
    name: bytes
    score: int
    storage: int
    """Number of the storage that its blocks lie on."""
    sizes: tuple[int, ...]
    """Bytes of the blocks that may go, from its tail on."""
    top: int = 0
    """Place in the run of the first of these, counted from its head."""
    stride: int = 1
    """By how much the depth grows from one block of the run to the next, about: the instance's shards."""
    guard: int = -1
    """Depth of its deepest block that must stay: being written, or finished a moment ago. -1 = none."""
    written_ms: int = 0
    level: int = 0
    """How often it was used lately (`heat_level`), where the policy asks for it."""

    @property
    def tick_ms(self) -> int:
        """When it was last used."""
        return self.score // TICK

    @property
    def depth(self) -> int:
        """Of its first block; what is deeper than 4,095 counts as that."""
        return TICK - 1 - self.score % TICK

    @property
    def size(self) -> int:
        return sum(self.sizes)

    def depth_of(self, number: int) -> int:
        """Of the n-th block that may go."""
        return self.depth + (self.top - number) * self.stride

    def without(self, count: int) -> RunView:
        """What is left of it when so many blocks of its tail are gone."""
        return replace(self, sizes=self.sizes[count:], top=self.top - count)

    def below(self, depth: int) -> RunView:
        """Only the blocks that are not above this depth; where depths are a guess, none that may be."""
        if self.stride > 1:
            return self if self.depth >= depth else replace(self, sizes=())
        kept = sum(self.depth_of(number) >= depth for number in range(len(self.sizes)))
        return self if kept == len(self.sizes) else replace(self, sizes=self.sizes[:kept])

    def precedence(self) -> tuple[int, int, bytes, int]:
        """Sorts the runs of a chain, those that go first in front.

        Beyond a depth of 4,095 the score says nothing: what was written later lies deeper.
        """
        ordinal = int.from_bytes(self.name[8:10]) & _ORDINAL
        return self.score, -self.written_ms, self.name[:8], -ordinal


def heat_level(heat: float) -> int:
    """A recent count of uses in steps of a factor of two, so that a chain of about equal use ties.

    Less than half a use is none.
    """
    return 0 if heat < 0.5 else math.floor(math.log2(heat)) + 2


@dataclass(slots=True)
class Chain:
    """Runs of one instance with one tick, of one level: they go together, the deepest block first."""

    instance: int
    runs: list[RunView]

    @property
    def blocks(self) -> int:
        return sum(len(run.sizes) for run in self.runs)


@dataclass(frozen=True, slots=True)
class Pick:
    """So many blocks from the tail of a run."""

    run: RunView
    blocks: int

    @property
    def size(self) -> int:
        return sum(self.run.sizes[: self.blocks])

    def split(self, blocks: int) -> tuple[Pick, Pick]:
        """Its first blocks, and the others."""
        return replace(self, blocks=blocks), Pick(self.run.without(blocks), self.blocks - blocks)


class Chains:
    """Puts runs that come in recency order together to chains; what stays holds up what lies above it."""

    def __init__(self) -> None:
        self._guards: dict[tuple[int, int], int] = {}

    def of(self, runs: Iterable[RunView]) -> list[Chain]:
        """`runs` are all those of one tick and level, of any instances."""
        by_instance: dict[int, list[RunView]] = {}
        for run in runs:
            by_instance.setdefault(run.instance, []).append(run)
            if run.guard >= 0:
                where = run.instance, run.tick_ms
                self._guards[where] = max(self._guards.get(where, -1), run.guard)
        chains = []
        for instance, found in by_instance.items():
            depth = self._guards.get((instance, found[0].tick_ms), -1)
            if depth >= 0:
                found = [run.below(depth) for run in found]
            kept = sorted((run for run in found if run.sizes), key=RunView.precedence)
            if kept:
                chains.append(Chain(instance, kept))
        return chains


def deepest_first(chain: Chain) -> Sequence[tuple[int, int]]:
    """(number of the run in the chain, bytes) of each block, in the order in which they go."""
    if all(run.stride == 1 for run in chain.runs):
        return [(number, size) for number, run in enumerate(chain.runs) for size in run.sizes]
    blocks = [
        (-run.depth_of(at), number, size)
        for number, run in enumerate(chain.runs)
        for at, size in enumerate(run.sizes)
    ]
    blocks.sort(key=lambda block: block[0])
    return [(number, size) for _, number, size in blocks]
