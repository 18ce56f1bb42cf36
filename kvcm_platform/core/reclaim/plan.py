"""Chooses runs until a goal is reached: as many blocks as it takes, and not one more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kvcm_platform.core.types import ReclaimBudget

from .budgets import allotments
from .order import Chain, Pick, deepest_first

Source = Callable[[int | None], AsyncIterator[Chain]]
"""The chains of one instance, or of the whole group (None), those that go first in front."""


@dataclass(slots=True)
class Goal:
    """What is to go: bytes, or blocks. None = everything."""

    amount: int | None
    in_blocks: bool = False

    @property
    def is_reached(self) -> bool:
        return self.amount is not None and self.amount <= 0

    def worth(self, size: int) -> int:
        return 1 if self.in_blocks else size

    def take(self, size: int) -> None:
        if self.amount is not None:
            self.amount -= self.worth(size)


@dataclass(slots=True)
class Plan:
    """What goes, in this order. `is_all` = there was nothing more to be chosen from."""

    picks: list[Pick] = field(default_factory=list)
    blocks: int = 0
    size: int = 0
    is_all: bool = False

    def add(self, picks: Sequence[Pick]) -> None:
        self.picks += picks
        self.blocks += sum(one.blocks for one in picks)
        self.size += sum(one.size for one in picks)


def pick(chain: Chain, goals: Sequence[Goal], most_blocks: int) -> list[Pick]:
    """What of a chain goes until one of the goals is reached; the goals are lowered by it."""
    taken = [0] * len(chain.runs)
    for count, (number, size) in enumerate(deepest_first(chain)):
        if count >= most_blocks or any(goal.is_reached for goal in goals):
            break
        taken[number] += 1
        for goal in goals:
            goal.take(size)
    return [Pick(run, blocks) for run, blocks in zip(chain.runs, taken, strict=True) if blocks]


class Feed:
    """Chains one behind the other; what of one was left comes again first."""

    def __init__(self, chains: AsyncIterator[Chain]) -> None:
        self._chains = chains
        self._left: Chain | None = None

    async def next(self) -> Chain | None:
        left, self._left = self._left, None
        return left or await anext(self._chains, None)

    def give_back(self, chain: Chain, picks: Iterable[Pick]) -> None:
        """What of a chain was not picked."""
        taken = {id(one.run): one.blocks for one in picks}
        runs = [run.without(taken.get(id(run), 0)) for run in chain.runs]
        left = [run for run in runs if run.sizes]
        self._left = Chain(chain.instance, left) if left else None


async def fill(plan: Plan, feed: Feed, goals: Sequence[Goal], most_blocks: int) -> bool:
    """Picks until one of the goals is reached. True = there is nothing more to pick from."""
    while plan.blocks < most_blocks and not any(goal.is_reached for goal in goals):
        chain = await feed.next()
        if chain is None:
            return True
        picks = pick(chain, goals, most_blocks - plan.blocks)
        plan.add(picks)
        feed.give_back(chain, picks)
    return False


async def make_plan(
    source: Source,
    budget: ReclaimBudget,
    goal: Goal,
    available: Mapping[int, int],
    most_blocks: int,
) -> Plan:
    """`available`: what each instance could give, in the goal's unit; at most `most_blocks` are chosen.

    An instance that gives less than its part (blocks that must stay) leaves the rest to the others.
    """
    plan, whole = Plan(), Goal(goal.amount, goal.in_blocks)
    if budget is ReclaimBudget.GROUP_LRU or whole.amount is None:
        plan.is_all = await fill(plan, Feed(source(None)), [whole], most_blocks)
        return plan
    have = dict(available)
    feeds = {number: Feed(source(number)) for number in have}
    while not whole.is_reached and plan.blocks < most_blocks:
        parts = allotments(budget, whole.amount, have)
        if not parts:
            plan.is_all = True
            break
        for number in sorted(parts, key=lambda one: (-parts[one], one)):
            if whole.is_reached or plan.blocks >= most_blocks:
                break
            part = Goal(parts[number], goal.in_blocks)
            is_all = await fill(plan, feeds[number], [part, whole], most_blocks)
            have[number] -= parts[number] - (part.amount or 0)
            if is_all:
                del have[number]
    return plan
