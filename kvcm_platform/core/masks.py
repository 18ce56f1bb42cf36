"""Block masks and the rules that turn records into answers (WIRE.md 3.2, 3.3, section A)."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import invalid

Mask = int | Sequence[bool] | None
"""An offset N (the first N are in the mask), one flag a block, or nothing in the mask."""


def check(mask: Mask, field: str = "block_mask") -> None:
    """Raises INVALID_ARGUMENT for a negative offset; longer and shorter masks are legal in queries."""
    if isinstance(mask, int) and mask < 0:
        raise invalid(f"{field}.offset", "must not be negative")


def flags(mask: Mask, count: int) -> list[bool]:
    """One flag a block: an offset past the end masks all, a short list leaves the rest unmasked."""
    if mask is None:
        return [False] * count
    if isinstance(mask, int):
        inside = min(mask, count)
        return [True] * inside + [False] * (count - inside)
    given = list(mask[:count])
    return given + [False] * (count - len(given))


def unmasked(mask: Mask, keys: Sequence[int]) -> Sequence[int]:
    """The keys that the caller does not have, in order."""
    if mask is None:
        return keys
    if isinstance(mask, int):
        return keys[mask:]
    return [key for key, is_masked in zip(keys, flags(mask, len(keys)), strict=True) if not is_masked]


def masked(mask: Mask, keys: Sequence[int]) -> Sequence[int]:
    """The keys that the caller has, in order."""
    if mask is None:
        return keys[:0]
    if isinstance(mask, int):
        return keys[:mask]
    return [key for key, is_masked in zip(keys, flags(mask, len(keys)), strict=True) if is_masked]


def compact(present: Sequence[bool]) -> int | list[bool]:
    """The answer mask of StartWriteCache: an offset exactly when the true entries are a prefix."""
    count = sum(present)
    return count if all(present[:count]) else list(present)


def rightmost_window(hits: Sequence[bool], size: int) -> int | None:
    """Start of the right-most run of `size` consecutive hits, or None."""
    run = 0
    for index in range(len(hits) - 1, -1, -1):
        run = run + 1 if hits[index] else 0
        if run == size:
            return index
    return None
