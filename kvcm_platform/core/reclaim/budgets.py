"""What each instance of a group gives to a reclaim run."""

from __future__ import annotations

from collections.abc import Mapping

from kvcm_platform.core.types import ReclaimBudget


def allotments(budget: ReclaimBudget, need: int, available: Mapping[int, int]) -> dict[int, int]:
    """Instance number -> its part of `need`, at most what it has; together min(need, all there is).

    Amounts are bytes or blocks, whatever `need` is of. GROUP_LRU knows no parts: each may give everything.
    """
    have = {number: amount for number, amount in available.items() if amount > 0}
    total = sum(have.values())
    need = min(need, total)
    if need <= 0:
        return {}
    match budget:
        case ReclaimBudget.USAGE_PROPORTIONAL:
            return _proportional(need, have, total)
        case ReclaimBudget.FIXED:
            return _level(need, have)
    return {number: min(need, amount) for number, amount in have.items()}


def _proportional(need: int, have: Mapping[int, int], total: int) -> dict[int, int]:
    """Whole parts; what rounding leaves goes to those with the largest remainders."""
    parts = {number: need * amount // total for number, amount in have.items()}
    left = need - sum(parts.values())
    by_remainder = sorted(have, key=lambda number: (-(need * have[number] % total), number))
    for number in by_remainder[:left]:
        parts[number] += 1
    return parts


def _level(need: int, have: Mapping[int, int]) -> dict[int, int]:
    """Equal parts; what one lacks the others give."""
    parts, left = {}, need
    for position, number in enumerate(sorted(have, key=lambda number: (have[number], number))):
        parts[number] = min(have[number], -(-left // (len(have) - position)))
        left -= parts[number]
    return parts
