"""Which silence fits which alert."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Protocol


class Pattern(Protocol):
    """A silence; empty members fit everything."""

    rule_name: str
    subject: str


def is_silenced(silences: Sequence[Pattern], *, rule_name: str, subject: str) -> bool:
    return any(
        (not each.rule_name or each.rule_name == rule_name)
        and (not each.subject or fnmatchcase(subject, each.subject))
        for each in silences
    )


def is_in_scope(patterns: Sequence[str], subject: str) -> bool:
    """Whether a rule with these patterns is about the subject; no pattern = about all."""
    return not patterns or any(fnmatchcase(subject, pattern) for pattern in patterns)
