"""Which of a block's locations answer a reader: chosen by weight, parts put together (WIRE.md 3.4)."""

from __future__ import annotations

import random
from collections.abc import Container, Sequence

from kvcm_platform.core.placement import Serving
from kvcm_platform.core.registry import InstanceEntry

from . import codec
from .codec import HEADER, PARTIAL, SERVING, StoredLocation


def answer(record: bytes, instance: InstanceEntry, serving: Serving) -> bytes | None:
    """Wire bytes for a record of several locations; None unless a spec set is there as a whole."""
    return _assemble(_usable(record, serving), instance, serving)


def answer_from(
    record: bytes | None, instance: InstanceEntry, serving: Serving, wire_type: int
) -> bytes | None:
    """The same with the locations on storages of one wire type alone; 0 = any."""
    if record is None:
        return None
    if HEADER + int.from_bytes(record[33:36]) == len(record):
        is_hit = record[0] == SERVING and record[1] < PARTIAL and wire_type in {0, record[2]}
        return record[HEADER:] if is_hit and int.from_bytes(record[3:5]) in serving.numbers else None
    usable = _usable(record, serving)
    if wire_type:
        usable = [location for location in usable if location.storage_ref >> 16 == wire_type]
    return _assemble(usable, instance, serving)


def has_all_specs(record: bytes | None, instance: InstanceEntry, serving: Serving) -> bool:
    if record is None:
        return False
    names = {name for location in _usable(record, serving) for name in location.spec_names()}
    return names.issuperset(spec.name for spec in instance.location_spec_infos)


def covers(instance: InstanceEntry, target: int, names: Container[str]) -> bool:
    """Whether every spec of a spec set is among these."""
    return all(spec.name in names for spec in instance.spec_sets()[target])


def _usable(record: bytes, serving: Serving) -> list[StoredLocation]:
    return [
        location
        for location in codec.locations(record)
        if location.status == SERVING and location.storage_number in serving.numbers
    ]


def _assemble(usable: list[StoredLocation], instance: InstanceEntry, serving: Serving) -> bytes | None:
    names = {location.location_id: frozenset(location.spec_names()) for location in usable}
    available = frozenset().union(*names.values())
    if not any(covers(instance, one.target, available) for one in usable):
        return None
    order = sorted(_shuffled(usable, serving), key=lambda one: -len(names[one.location_id]))
    picked: list[StoredLocation] = []
    have: frozenset[str] = frozenset()
    for location in order:
        if not names[location.location_id] <= have:
            picked.append(location)
            have |= names[location.location_id]
    if len(picked) == 1:
        return picked[0].wire
    return codec.merged([one.wire for one in picked], [spec.name for spec in instance.location_spec_infos])


def _shuffled(locations: Sequence[StoredLocation], serving: Serving) -> list[StoredLocation]:
    """Random order in which each stands first as often as its storage's weight says.

    Weighted sampling without replacement by exponential keys (Efraimidis and Spirakis, 2006).
    """

    def key(location: StoredLocation) -> float:
        weight = serving.weights[location.storage_number]
        return random.expovariate(weight) if weight > 0 else float("inf")

    return sorted(locations, key=key)
