"""What block records say (core.ports.RecordRules)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kvcm_platform.core.placement import Serving
from kvcm_platform.core.ports import Shape
from kvcm_platform.core.registry import InstanceEntry

from . import choice, codec
from .codec import HEADER, PARTIAL, SERVING

Record = bytes | None


def is_single(record: bytes) -> bool:
    """Whether a record is one location alone, as nearly all are."""
    return HEADER + int.from_bytes(record[33:36]) == len(record)


def served(record: Record, instance: InstanceEntry, serving: Serving) -> bytes | None:
    if record is None:
        return None
    if not is_single(record):
        return choice.answer(record, instance, serving)
    if record[0] == SERVING and record[1] < PARTIAL and int.from_bytes(record[3:5]) in serving.numbers:
        return record[HEADER:]
    return None


@dataclass(frozen=True, slots=True)
class Scan:
    """Blocks that are all hits, each with one location: what a chunk of them holds."""

    wire: bytes
    runs: dict[bytes, int]
    """Run name -> depth of its first block here."""
    storages: frozenset[int]


def scan(records: Sequence[Record], serving: Serving) -> Scan | None:
    """None where a block is a miss or has several locations: those are looked at one by one.

    Neighbours mostly share a run, and with it all that is looked at here, so most blocks cost two
    comparisons.
    """
    wires: list[bytes] = []
    runs: dict[bytes, int] = {}
    storages: set[int] = set()
    head = length = b""
    size = 0
    for position, record in enumerate(records):
        if record is None:
            return None
        if record[33:36] != length or len(record) != size:
            if not is_single(record):
                return None
            length, size = record[33:36], len(record)
        if record[:15] != head:
            head = record[:15]
            number = int.from_bytes(head[3:5])
            if head[0] != SERVING or head[1] >= PARTIAL or number not in serving.numbers:
                return None
            storages.add(number)
            runs.setdefault(head[5:], position)
        wires.append(record[HEADER:])
    return Scan(b"".join(wires), runs, frozenset(storages))


def lacking(
    record: bytes, instance: InstanceEntry, shape: Shape, serving: Serving, replicas: int
) -> Shape | None:
    if replicas == 1 and is_single(record) and record[1] in {0, shape.target}:
        exists = record[0] != SERVING or int.from_bytes(record[3:5]) in serving.numbers
        return None if exists else shape
    counts: Counter[str] = Counter()
    targets: set[int] = set()
    for location in codec.locations(record):
        if location.status != SERVING or location.storage_number in serving.numbers:
            counts.update(location.spec_names())
            targets.add(location.target)
    missing = tuple(spec for spec in shape.specs if counts[spec.name] < replicas)
    if missing:
        return shape if missing == shape.specs else Shape(shape.target, missing, is_partial=True)
    # Parts whose other parts failed or went are no hit for anybody: what is asked for is written anew.
    is_hit = any(choice.covers(instance, target, counts) for target in targets)
    return None if is_hit else shape


def first(record: Record) -> tuple[str, int, bytes] | None:
    if record is None:
        return None
    location = next(codec.locations(record))
    return location.location_id, location.status, location.wire


def runs(records: Sequence[Record], depth: int) -> dict[bytes, int]:
    """Run name -> depth of its first block here."""
    found: dict[bytes, int] = {}
    for position, record in enumerate(records, depth):
        if record is None:
            continue
        if is_single(record):
            found.setdefault(record[5:15], position)
        else:
            for name in codec.run_names(record):
                found.setdefault(name, position)
    return found


def is_of_object(location: bytes, name: str) -> bool:
    # In a URI the name stands between the spec's name and the location id (core.uris).
    return b"/%b." % name.encode() in location


class WireRecords:
    """`RecordRules` over this package's codec."""

    served = staticmethod(served)
    served_by = staticmethod(choice.answer_from)
    has_all_specs = staticmethod(choice.has_all_specs)
    lacking = staticmethod(lacking)
    storages = staticmethod(codec.storage_numbers)
    first = staticmethod(first)
    is_of_object = staticmethod(is_of_object)

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
