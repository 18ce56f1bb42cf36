"""What block records say (core.ports.RecordRules)."""

from __future__ import annotations

import random
from collections.abc import Sequence

from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.core.types import READ_WEIGHT, STORAGE_TYPE_BY_WIRE

from . import codec
from .codec import HEADER, SERVING

Record = bytes | None


def served(record: Record, served_now: frozenset[int]) -> bytes | None:
    """A serving location's wire bytes; of several one by weight (WIRE.md 3.4)."""
    if record is None:
        return None
    end = HEADER + int.from_bytes(record[33:36])
    if end == len(record):
        if record[0] == SERVING and int.from_bytes(record[3:5]) in served_now:
            return record[HEADER:]
        return None
    choices = [
        location
        for location in codec.locations(record)
        if location.status == SERVING and location.storage_number in served_now
    ]
    if not choices:
        return None
    weights = [READ_WEIGHT[STORAGE_TYPE_BY_WIRE[choice.storage_ref >> 16]] for choice in choices]
    return random.choices(choices, weights)[0].wire  # noqa: S311


def exists(record: Record, served_now: frozenset[int]) -> bool:
    if record is None:
        return False
    return any(
        location.status != SERVING or location.storage_number in served_now
        for location in codec.locations(record)
    )


def first(record: Record) -> tuple[str, int, bytes] | None:
    if record is None:
        return None
    location = next(codec.locations(record))
    return location.location_id, location.status, location.wire


def runs(records: Sequence[Record], depth: int) -> dict[bytes, int]:
    """Run name -> depth of its first block here. Multi-location blocks touch the run of their first."""
    found: dict[bytes, int] = {}
    for position, record in enumerate(records, depth):
        if record is not None:
            found.setdefault(record[5:15], position)
    return found


class WireRecords:
    """`RecordRules` over this package's codec."""

    served = staticmethod(served)
    exists = staticmethod(exists)
    first = staticmethod(first)

    def __init__(self) -> None:
        self._placeholders: dict[int, bytes] = {}

    def placeholder(self, instance: InstanceEntry) -> bytes:
        known = self._placeholders.get(instance.number)
        if known is None:
            if len(self._placeholders) > 10_000:
                self._placeholders.clear()
            known = self._placeholders[instance.number] = codec.placeholder(instance)
        return known

    def only_specs(self, wire: bytes, names: frozenset[str]) -> bytes:
        return codec.only_specs(wire, names)
