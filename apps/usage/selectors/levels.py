"""The levels of everything that has a history."""

from __future__ import annotations

from collections.abc import Mapping

from apps.usage.choices import Kind, SeriesKey
from kvcm_platform.core.levels import GroupReading, group_levels, instance_levels, storage_levels
from kvcm_platform.core.points import Levels
from kvcm_platform.core.registry import Registry


def levels_of_all(registry: Registry, readings: Mapping[str, GroupReading]) -> dict[SeriesKey, Levels]:
    """The levels of what the registry has; groups without a reading and their instances are left out."""
    found: dict[SeriesKey, Levels] = {}
    for name, reading in readings.items():
        if name in registry.groups:
            found[SeriesKey(Kind.GROUP, name)] = group_levels(registry.groups[name], reading)
    for storage in registry.storages.values():
        found[SeriesKey(Kind.STORAGE, storage.name)] = storage_levels(storage, readings)
    for instance in registry.instances.values():
        known = readings.get(instance.group)
        if known is not None:
            key = SeriesKey(Kind.INSTANCE, instance.instance_id, instance.group)
            found[key] = instance_levels(instance.number, known)
    return found
