"""Figures that an app brings along for /metrics, beside those of the overview.

An app has a function `collectors` in `figures.py`: it reads what it needs, at once and bounded in time,
and raises redis.RedisError or django.db.DatabaseError where it cannot; its figures are then left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec

from django.apps import apps
from prometheus_client.registry import Collector


def declared_figures() -> Iterator[Callable[[], Iterable[Collector]]]:
    """The functions of every installed app of the platform."""
    for config in apps.get_app_configs():
        module = f"{config.name}.figures"
        if config.name.startswith("apps.") and config.name != "apps.common" and find_spec(module):
            yield import_module(module).collectors
