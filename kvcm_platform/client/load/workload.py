"""Made-up agent sessions: shared system prompts, many turns, pauses to think.

Every turn sends the whole conversation so far, so its prompt is the last turn's prompt, the
answer to it and something new. That is what makes prefix caches pay.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from kvcm_platform.core.block_keys import chained_block_keys

_ZIPF_EXPONENT = 1.1
_PAUSE_SIGMA = 0.8
_PAUSE_MU = -(_PAUSE_SIGMA**2) / 2
"""Makes the mean of the log-normal pauses 1."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How the users of one model behave. Sizes are blocks, times seconds, all averages."""

    system_prompts: int = 24
    """Distinct ones; the n-th most popular is used 1/n^1.1 as often as the first."""
    system_blocks: int = 24
    turns: float = 6.0
    question_blocks: float = 3.0
    answer_blocks: float = 5.0
    think_seconds: float = 8.0
    most_blocks: int = 400
    """A session ends when its prompt would be longer."""


class Session:
    """One conversation. `next_turn` grows it; the keys are those of the whole prompt."""

    def __init__(
        self, contents: list[int], fresh: Iterator[int], habits: Habits, dice: random.Random
    ) -> None:
        self._contents = contents
        self._fresh = fresh
        self._habits = habits
        self._dice = dice

    def next_turn(self) -> list[int] | None:
        """Keys of the next prompt's blocks, or None when the conversation is over."""
        habits, dice = self._habits, self._dice
        new = 1 + _around(dice, habits.question_blocks)
        if len(self._contents) + new > habits.most_blocks:
            return None
        self._contents += itertools.islice(self._fresh, new)
        keys = chained_block_keys(self._contents, 1)
        self._contents += itertools.islice(self._fresh, _around(dice, habits.answer_blocks))
        return keys

    def is_over(self) -> bool:
        """Whether the user leaves now; asked after each turn."""
        return self._dice.random() < 1 / self._habits.turns

    def pause_seconds(self) -> float:
        """Time until the next turn: mostly short, now and then long."""
        return self._dice.lognormvariate(_PAUSE_MU, _PAUSE_SIGMA) * self._habits.think_seconds


class Workload:
    """Sessions of one model. `seed` fixes all that happens in them; two seeds share only the
    system prompts, which are those of the model.
    """

    def __init__(self, model: int, seed: int, habits: Habits) -> None:
        self._habits = habits
        self._dice = random.Random(seed)  # noqa: S311 - made-up load
        prompts = random.Random(model)  # noqa: S311
        lengths = [
            max(2, round(prompts.gauss(1, 0.4) * habits.system_blocks)) for _ in range(habits.system_prompts)
        ]
        self._prompts = [
            [(model << 40) + (number << 20) + block for block in range(length)]
            for number, length in enumerate(lengths)
        ]
        self._weights = [1 / (rank + 1) ** _ZIPF_EXPONENT for rank in range(habits.system_prompts)]
        # Contents nobody else has: their ids begin at a random place of a space of 2^62.
        self._fresh = itertools.count(self._dice.getrandbits(62))

    def new_session(self) -> Session:
        (prompt,) = self._dice.choices(self._prompts, self._weights)
        return Session(list(prompt), self._fresh, self._habits, self._dice)


def _around(dice: random.Random, average: float) -> int:
    """A whole number, exponentially spread around the average."""
    return round(dice.expovariate(1 / average))
