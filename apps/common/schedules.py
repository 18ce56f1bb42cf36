"""Periodic work that an app brings along. `bootstrap` makes the rows; operators may then edit them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from django.apps import apps


@dataclass(frozen=True, slots=True)
class Schedule:
    """One task run every `every_seconds`. An app lists its own in `schedules.py` as SCHEDULES."""

    name: str
    task: str
    every_seconds: int
    kwargs: dict[str, Any] = field(default_factory=dict)
    description: str = ""


def declared_schedules() -> Iterator[Schedule]:
    """The schedules of every installed app of the platform."""
    for config in apps.get_app_configs():
        module = f"{config.name}.schedules"
        if config.name.startswith("apps.") and config.name != "apps.common" and find_spec(module):
            yield from import_module(module).SCHEDULES
