"""What may go wrong, as each app knows it: conditions that `apps.alerts` evaluates.

An app lists its own in `conditions.py` as CONDITIONS. Rules (rows that operators edit) say with which
parameters a condition is asked, how long it must hold and how severe it is; each condition brings
the rule that an installation begins with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec

from django.apps import apps

Parameters = Mapping[str, float]


class Severity(StrEnum):
    """How soon somebody must look: at the next occasion, today, now."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Finding:
    """One subject for which a condition holds now.

    `subject` is the name of the object, its key in alerts; a condition about the platform as a whole
    names the part that it means. `message` is a sentence that an operator can act on. `groups` are
    the instance groups concerned, for accounts limited to some; None = a matter of all of them alike.
    """

    subject: str
    message: str
    value: float | None = None
    groups: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that rules may set, with the range that makes sense. `unit`: ratio, seconds, bytes, …"""

    name: str
    default: float
    minimum: float
    maximum: float
    unit: str
    help: str


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that may hold for some subjects.

    `check` gets the parameters of one rule and gives a finding for each subject for which the condition
    holds. It is bounded in time by itself, and raises where it cannot tell: an alert of its rules then
    stays as it is. `subject_kind` is storage, instance_group, instance or platform; `unit` that of a
    finding's value. The rest is the rule that an installation begins with: the condition must hold
    for `for_seconds` to fire, and be gone for `keep_firing_seconds` to resolve.
    """

    name: str
    title: str
    help: str
    subject_kind: str
    check: Callable[[Parameters], Iterable[Finding]]
    severity: Severity = Severity.WARNING
    for_seconds: int = 0
    keep_firing_seconds: int = 0
    unit: str = ""
    parameters: tuple[Parameter, ...] = ()


def ended(sentence: str) -> str:
    """A reason from elsewhere as the end of a sentence."""
    text = sentence.strip()
    return text if text.endswith((".", "?", "!")) else f"{text}."


def declared_conditions() -> Iterator[Condition]:
    """The conditions of every installed app of the platform."""
    for config in apps.get_app_configs():
        module = f"{config.name}.conditions"
        if config.name.startswith("apps.") and config.name != "apps.common" and find_spec(module):
            yield from import_module(module).CONDITIONS
