"""From a write plan to the record entries of its blocks. No I/O; cheap per block, since Start pays for it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgpack

from kvcm_platform.core import uris
from kvcm_platform.core.places import PoolPlaces, RangeRun
from kvcm_platform.core.ports import Shape, WritePlan
from kvcm_platform.core.registry import InstanceEntry, LocationSpecInfo, StorageEntry
from kvcm_platform.core.types import LOCATION_WIRE_TYPE, LocationStatus

from . import codec
from .shards import ORDINAL_BITS
from .storage_refs import storage_ref

RUN = 16
"""New blocks of one Start that share one place in the recency order (DESIGN 4.1)."""
FEW = 4096
_POSITIONS = tuple(at.to_bytes(2) for at in range(FEW))


def build_entries(plan: WritePlan, storage: StorageEntry, now_ms: int, shard: int = 0) -> list[bytes]:
    """Record entries of the plan's blocks, in order. Blocks of one shape are placed together.

    A function of the plan and the storage's configuration alone (but for the time), so that a
    sweeper can rebuild what a crashed Start had named.
    """
    ranges = ranges_of(plan, shard)
    groups = by_shape(plan)
    if len(groups) == 1:
        (only,) = groups
        return _entries_of_shape(plan, storage, only, ranges, now_ms, shard)
    entries: list[bytes] = [b""] * len(plan.keys)
    for group in groups:
        made = _entries_of_shape(plan, storage, group, ranges, now_ms, shard)
        for index, entry in zip(group.indexes, made, strict=True):
            entries[index] = entry
    return entries


@dataclass(frozen=True, slots=True)
class ShapeGroup:
    """The blocks of a plan that have one shape, by their indexes."""

    shape: Shape
    indexes: Sequence[int]


def by_shape(plan: WritePlan) -> list[ShapeGroup]:
    """In the order in which they are placed: that of their first blocks."""
    if not plan.shape_of:
        return [ShapeGroup(plan.shapes[0], range(len(plan.keys)))]
    groups: dict[int, list[int]] = {}
    for index, number in enumerate(plan.shape_of):
        groups.setdefault(number, []).append(index)
    return [ShapeGroup(plan.shapes[number], indexes) for number, indexes in groups.items()]


def ranges_of(plan: WritePlan, shard: int) -> Iterator[tuple[int, int]]:
    """(id, offset) of the plan's memory in one shard, in the order of placing; none on other storages."""
    runs = plan.places.runs[shard] if plan.places else ()
    return (one for run in runs for one in run.ranges())


def _columns(
    plan: WritePlan,
    storage: StorageEntry,
    group: ShapeGroup,
    keys: Sequence[int],
    ranges: Iterator[tuple[int, int]],
) -> list[list[str]]:
    specs, instance_id = group.shape.specs, plan.instance.instance_id
    if plan.places is None:
        named = plan.object_names
        names = [named[index] for index in group.indexes] if named else uris.key_names(keys)
        return uris.build_uris(storage, instance_id, specs, names, plan.location_id)
    object_keys = [[""] * len(keys)] * len(specs)
    if plan.object_names:
        # A range says nothing of what it holds; a value must be told from another key's.
        object_keys = [
            [f"{instance_id}/{spec.name}/{plan.object_names[i]}.{plan.location_id}" for i in group.indexes]
            for spec in specs
        ]
    return uris.pool_uris(storage, plan.places.node_id, ranges, specs, object_keys)


def _entries_of_shape(
    plan: WritePlan,
    storage: StorageEntry,
    group: ShapeGroup,
    ranges: Iterator[tuple[int, int]],
    now_ms: int,
    shard: int,
) -> list[bytes]:
    shape, indexes = group.shape, group.indexes
    keys = plan.keys if len(indexes) == len(plan.keys) else [plan.keys[index] for index in indexes]
    columns = _columns(plan, storage, group, keys, ranges)
    tail = struct.pack(">HH", len(keys) - 1, uris.slots_per_file(storage))
    wires = _Frames(storage, shape.specs, tail).wires(columns)
    head = codec.entry_head(LocationStatus.WRITING, shape, storage_ref(storage), plan.location_id)
    size_and_time = shape.size.to_bytes(6) + now_ms.to_bytes(6)
    first_run = shard << ORDINAL_BITS
    numbers = {index // RUN for index in indexes}
    runs = {number: head + (first_run | number).to_bytes(2) + size_and_time for number in numbers}
    positions = _POSITIONS if len(keys) <= FEW else [at.to_bytes(2) for at in range(len(keys))]
    return [
        runs[index // RUN] + position + wire
        for index, position, wire in zip(indexes, positions, wires, strict=False)
    ]


def pack_placement(plan: WritePlan, shard: int = 0) -> bytes:
    """What a session remembers of how its blocks were placed, beside their keys; empty in the plain case."""
    first = plan.shapes[0]
    is_plain = not plan.shape_of and first == Shape(0, plan.instance.location_spec_infos)
    if is_plain and not plan.object_names and plan.places is None:
        return b""
    shapes = [
        (shape.target, shape.is_partial, [(spec.name, spec.size) for spec in shape.specs])
        for shape in plan.shapes
    ]
    places = None
    if plan.places is not None:
        runs = [(run.first_id, run.offset, run.slot_bytes, run.count) for run in plan.places.runs[shard]]
        places = (plan.places.number, plan.places.node_id, runs)
    return bytes(msgpack.packb((shapes, list(plan.shape_of), list(plan.object_names), places)))


@dataclass(frozen=True, slots=True)
class Placement:
    """What `pack_placement` packed, of a WritePlan's members."""

    shapes: tuple[Shape, ...]
    shape_of: Sequence[int] = ()
    object_names: Sequence[str] = ()
    places: PoolPlaces | None = None


def unpack_placement(packed: bytes, instance: InstanceEntry, shard: int = 0) -> Placement:
    if not packed:
        return Placement((Shape(0, instance.location_spec_infos),))
    packed_shapes, shape_of, names, *rest = msgpack.unpackb(packed)
    shapes = tuple(
        Shape(target, tuple(LocationSpecInfo(name, size) for name, size in specs), is_partial)
        for target, is_partial, specs in packed_shapes
    )
    places = None
    if rest and rest[0] is not None:  # a session of an older version has no such member
        number, node_id, runs = rest[0]
        places = PoolPlaces(number, node_id, {shard: [RangeRun(*run) for run in runs]})
    return Placement(shapes, shape_of, names, places)


def object_names(header: codec.SessionHeader, keys: Sequence[int]) -> Sequence[str]:
    """Names of the objects of a session with these keys."""
    named: Sequence[str] = msgpack.unpackb(header.placement)[2] if header.placement else ()
    return named or uris.key_names(keys)


class _Frames:
    """Encodes locations of one kind, each behind `tail`, the end of its entry's header.

    What stands around a URI depends on its length alone and is kept.
    """

    def __init__(self, storage: StorageEntry, specs: Sequence[LocationSpecInfo], tail: bytes) -> None:
        self._tail = tail
        self._names = [spec.name for spec in specs]
        self._opening = codec.location_opening(LOCATION_WIRE_TYPE[storage.type], len(specs))
        self._around: list[dict[int, bytes]] = [{} for _ in specs]
        self._before: dict[int, bytes] = {}

    def wires(self, columns: Sequence[Sequence[str]]) -> list[bytes]:
        """Tail, length and wire bytes of each block; `columns` has one list of URIs per spec."""
        # URIs hold no line breaks (core.validation.values), so one encoding serves a whole column.
        encoded = ["\n".join(column).encode().split(b"\n") for column in columns]
        if len(encoded) == 1:
            around = self._around[0]
            for length in set(map(len, encoded[0])):
                around[length] = self._open(codec.spec_frame(self._names[0], length), length)
            return [around[len(uri)] + uri for uri in encoded[0]]
        return [self._many(row) for row in zip(*encoded, strict=True)]

    def _many(self, row: Sequence[bytes]) -> bytes:
        parts: list[bytes] = []
        for number, uri in enumerate(row):
            known = self._around[number].get(len(uri))
            if known is None:
                known = self._around[number][len(uri)] = codec.spec_frame(self._names[number], len(uri))
            parts.append(known)
            parts.append(uri)
        body = b"".join(parts)
        before = self._before.get(len(body))
        if before is None:
            before = self._before[len(body)] = self._open(b"", len(body))
        return before + body

    def _open(self, frame: bytes, length: int) -> bytes:
        """Everything before `length` bytes that follow `frame`: wire length, tag, size, type, spec count."""
        opening = codec.open_location(self._opening, len(frame) + length) + frame
        return self._tail + (len(opening) + length).to_bytes(3) + opening


def pack_seen(plan: WritePlan, start: int, count: int) -> bytes:
    """Location ids that the planner saw of blocks that get one more: `{index in the chunk: ids}`.

    A location that came since means that another was faster.
    """
    seen = {
        index - start + 1: b"".join(name[:8] for name in codec.run_names(record))
        for index, record in plan.replaced.items()
        if start <= index < start + count
    }
    return msgpack.packb(seen, use_bin_type=False) if seen else b""  # as cmsgpack reads it


def never_inserted(plan: WritePlan, entries: Sequence[bytes], start: int) -> list[bytes]:
    """(key, entry) pairs, flattened, of the blocks from `start` on."""
    pairs: list[bytes] = []
    for key, entry in zip(plan.keys[start:], entries[start:], strict=True):
        pairs += [codec.pack_keys((key,)), entry]
    return pairs


def session_header(plan: WritePlan, storage: StorageEntry | None, now_ms: int, shard: int = 0) -> bytes:
    return codec.SessionHeader(
        state=codec.SESSION_OPEN,
        insert_by_ms=plan.insert_by_ms,
        deadline_ms=plan.deadline_ms,
        count=len(plan.keys),
        inserted=0,
        started_ms=now_ms,
        location_id=plan.location_id,
        storage_ref=0 if storage is None else storage_ref(storage),
        per_file=1 if storage is None else uris.slots_per_file(storage),
        placement=pack_placement(plan, shard),
    ).pack()
