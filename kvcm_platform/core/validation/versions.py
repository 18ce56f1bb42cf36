"""Optimistic locks: the version that a change was made for, and the one it writes."""

from __future__ import annotations

from kvcm_platform.core.errors import Code, DomainError, invalid


def require_version(*, stored: int, given: int | None) -> None:
    """Raise CONFLICT unless `given` is the stored version; None opts out of the check."""
    if given is not None and given != stored:
        raise DomainError(
            Code.CONFLICT,
            f"version: the stored version is {stored}, the change was made for {given}",
            field="version",
        )


MAX_VERSION = 1 << 62
"""Far enough from the database's largest number that one more always fits."""


def next_version(*, stored: int, given: int | None) -> int:
    """The version an update writes: the given one, which must be higher, or one more."""
    if given is None:
        return stored + 1
    if not stored < given <= MAX_VERSION:
        raise invalid(
            "version", f"must be greater than the stored version {stored} and at most {MAX_VERSION}"
        )
    return given
