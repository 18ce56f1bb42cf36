"""What was asked of a cache and held in it over a time, out of counters instead of a trace. Pure.

Counters know how many tokens were hit and in how many requests, not where in their prompts these stood. Of
all ways in which n requests can share h tokens, equal lengths have the least sum of positions (the sum of
squares is convex); so what is counted here is the least that there was.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class TrafficAmounts:
    """What was done and held in a time; sums of several are made member by member.

    `byte_seconds` is held bytes over time, for the `known_seconds` in which somebody looked at them.
    """

    requests: int = 0
    requested_tokens: int = 0
    hit_tokens: int = 0
    hit_token_positions: float = 0.0
    byte_seconds: float = 0.0
    known_seconds: float = 0.0

    def __add__(self, other: TrafficAmounts) -> TrafficAmounts:
        sums = (getattr(self, each.name) + getattr(other, each.name) for each in fields(self))
        return TrafficAmounts(*sums)

    @property
    def token_hit_rate(self) -> float | None:
        """None where nothing was asked for."""
        return self.hit_tokens / self.requested_tokens if self.requested_tokens else None

    @property
    def mean_bytes(self) -> float:
        """Held on average while somebody looked."""
        return self.byte_seconds / self.known_seconds if self.known_seconds else 0.0


def least_token_positions(hit_tokens: int, requests: int) -> float:
    """The least possible sum of the positions of `hit_tokens` hit at the beginnings of `requests` prompts."""
    if hit_tokens <= 0 or requests <= 0:
        return 0.0
    # Lengths are whole numbers: some are one longer than the others.
    length, longer = divmod(hit_tokens, requests)
    shorter = requests - longer
    return (longer * (length + 1) * length + shorter * length * (length - 1)) / 2
