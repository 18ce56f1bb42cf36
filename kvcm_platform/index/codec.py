"""Binary layouts: block records, write-session headers, and locations as wire bytes.

A record is one or more locations. Each is a header of 36 bytes, big endian, and the location
already encoded as one `locations` entry of the answer, so that a hit is copied, never rebuilt:

    0 status 1 | 1 target 1 | 2 storage ref 3 | 5 location id 8 | 13 run ordinal 2 | 15 bytes 6 |
    21 time ms 6 | 27 index 2 | 29 count - 1 2 | 31 slots a file 2 | 33 wire length 3 | 36 wire …

The target is the number of the spec set that was asked for, with PARTIAL when the location has
only some of its specs. Bytes 5..15 are the run's name. The time is that of Start while writing, of
Finish afterwards.
`index`, `count` and `slots a file` place the block in its Start's files (core.uris.SlotPosition).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kvcm_platform.core.ports import Shape
from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.core.types import LocationStatus
from kvcm_platform.core.uris import SlotPosition
from kvcm_platform.pb import meta_service_pb2 as pb

from .storage_refs import number_of

HEADER = 36
_HEAD = struct.Struct(">BBHB8s")
LOCATIONS_TAG = b"\x12"
"""Field 2, length-delimited: `locations` of GetCacheLocationResponse and GetCacheMetaResponse."""
START_LOCATIONS_TAG = b'"'
"""Field 4, length-delimited: `locations` of StartWriteCacheResponse."""

SERVING = int(LocationStatus.SERVING)
PARTIAL = 0x80
"""Flag of a target whose other specs are in other locations of the block (core.ports.Shape)."""


@dataclass(frozen=True, slots=True)
class StoredLocation:
    """One location of a record, decoded."""

    status: int
    target: int
    is_partial: bool
    storage_ref: int
    location_id: str
    run: bytes
    size: int
    time_ms: int
    position: SlotPosition
    wire: bytes

    @property
    def storage_number(self) -> int:
        return number_of(self.storage_ref)

    def spec_names(self) -> list[str]:
        return [spec.name for spec in parse_location(self.wire).location_specs]

    def specs(self) -> list[tuple[str, str]]:
        """(spec name, URI) pairs."""
        return [(spec.name, spec.uri) for spec in parse_location(self.wire).location_specs]


def parse_location(wire: bytes) -> pb.CacheLocation:
    """The message of one entry of wire bytes, whichever tag opens it."""
    return pb.GetCacheLocationResponse.FromString(LOCATIONS_TAG + wire[1:]).locations[0]


def locations(record: bytes) -> Iterator[StoredLocation]:
    """Decodes a record; for pages, deletion and recounts, not for hits."""
    at = 0
    while at < len(record):
        stop = at + HEADER + int.from_bytes(record[at + 33 : at + 36])
        yield StoredLocation(
            status=record[at],
            target=record[at + 1] & ~PARTIAL,
            is_partial=bool(record[at + 1] & PARTIAL),
            storage_ref=int.from_bytes(record[at + 2 : at + 5]),
            location_id=record[at + 5 : at + 13].decode(),
            run=record[at + 5 : at + 15],
            size=int.from_bytes(record[at + 15 : at + 21]),
            time_ms=int.from_bytes(record[at + 21 : at + 27]),
            position=SlotPosition(
                index=int.from_bytes(record[at + 27 : at + 29]),
                count=int.from_bytes(record[at + 29 : at + 31]) + 1,
                per_file=int.from_bytes(record[at + 31 : at + 33]),
            ),
            wire=record[at + HEADER : stop],
        )
        at = stop


RUN_ID = 8
"""Bytes of a reclaim run's id in a pending entry; elsewhere it is written in hex."""
_EVICTED = (b"e", b"E")


def split_pending(value: bytes) -> tuple[bytes, bytes, bytes]:
    """Flag of a pending deletion (lua/1_common.lua), reclaim run that chose it or b"", and its location."""
    flag = value[:1]
    if flag in _EVICTED:
        return flag, value[1 : 1 + RUN_ID], value[1 + RUN_ID :]
    return flag, b"", value[1:]


def run_names(record: bytes) -> list[bytes]:
    """The runs that a block's locations belong to."""
    end = HEADER + int.from_bytes(record[33:36])
    names = [record[5:15]]
    while end < len(record):
        names.append(record[end + 5 : end + 15])
        end += HEADER + int.from_bytes(record[end + 33 : end + 36])
    return names


def storage_numbers(record: bytes) -> list[int]:
    """The storages that hold a block's locations."""
    end = HEADER + int.from_bytes(record[33:36])
    numbers = [int.from_bytes(record[3:5])]
    while end < len(record):
        numbers.append(int.from_bytes(record[end + 3 : end + 5]))
        end += HEADER + int.from_bytes(record[end + 33 : end + 36])
    return numbers


def entry_head(status: int, shape: Shape, ref: int, location_id: str) -> bytes:
    """The first 13 bytes of an entry; ordinal, size, time, position and wire follow (index/placing.py)."""
    target = shape.target | PARTIAL if shape.is_partial else shape.target
    return _HEAD.pack(status, target, ref >> 8, ref & 0xFF, location_id.encode())


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(tag: bytes, body: bytes) -> bytes:
    return tag + _varint(len(body)) + body


def location_opening(wire_type: int, spec_count: int) -> bytes:
    """The members of a location before its specs: type and spec_size."""
    return (b"\x08" + _varint(wire_type) if wire_type else b"") + b"\x10" + _varint(spec_count)


def open_location(opening: bytes, rest: int) -> bytes:
    """Tag and length of a `locations` entry whose members are `opening` and `rest` more bytes."""
    return LOCATIONS_TAG + _varint(len(opening) + rest) + opening


def spec_frame(name: str, uri_length: int) -> bytes:
    """Everything of a location spec before its URI of that many bytes."""
    named = _field(b"\x0a", name.encode()) + (b"\x12" + _varint(uri_length) if uri_length else b"")
    return b"\x1a" + _varint(len(named) + uri_length) + named


def location_vector(wires: Sequence[bytes]) -> bytes:
    """One `key_locations` entry of GetCacheLocationsByBackendResponse."""
    return _field(LOCATIONS_TAG, b"".join(b"\x0a" + wire[1:] for wire in wires))


def start_locations(wires: Sequence[bytes]) -> bytes:
    """`locations` entries of StartWriteCacheResponse and of PutStartResponse, from those of a query."""
    return b"".join(START_LOCATIONS_TAG + wire[1:] for wire in wires)


def placeholder(instance: InstanceEntry) -> bytes:
    """What stands for a missing block: no type, every spec with an empty URI (WIRE.md 3.3)."""
    specs = b"".join(spec_frame(spec.name, 0) for spec in instance.location_spec_infos)
    return open_location(location_opening(0, len(instance.location_spec_infos)), len(specs)) + specs


def only_specs(wire: bytes, names: frozenset[str]) -> bytes:
    """Locations with the named specs alone; spec_size stays as it is (WIRE.md 3.3)."""
    answer = pb.GetCacheLocationResponse.FromString(wire)
    for location in answer.locations:
        kept = [spec for spec in location.location_specs if spec.name in names]
        del location.location_specs[:]
        location.location_specs.extend(kept)
    return answer.SerializeToString()


def merged(wires: Sequence[bytes], names: Sequence[str]) -> bytes:
    """One location with the specs of several, those of the first where two have the same, in this order."""
    parsed = [parse_location(wire) for wire in wires]
    specs: dict[str, pb.LocationSpec] = {}
    for location in parsed:
        for spec in location.location_specs:
            specs.setdefault(spec.name, spec)
    kept = [specs[name] for name in names if name in specs]
    location = pb.CacheLocation(type=parsed[0].type, spec_size=len(kept), location_specs=kept)
    return pb.GetCacheLocationResponse(locations=[location]).SerializeToString()


# Write-session header; the functions change its first part, `placement` tells how blocks were placed.
_SESSION = struct.Struct(">B6s6s3s3s6s8s3sH")


SESSION_OPEN, SESSION_FINISHING = 1, 2
"""States of a session, and of a ticket."""
_INDEX_BYTES = 3


@dataclass(frozen=True, slots=True)
class SessionHeader:
    """State of a write session. Times are Redis milliseconds; `count` is the number of its keys."""

    state: int
    insert_by_ms: int
    deadline_ms: int
    count: int
    inserted: int
    started_ms: int
    location_id: str
    storage_ref: int
    per_file: int
    placement: bytes
    """Shapes and names of the blocks (index/placing.py); empty = all specs, named by their keys."""

    def pack(self) -> bytes:
        return (
            _SESSION.pack(
                self.state,
                self.insert_by_ms.to_bytes(6),
                self.deadline_ms.to_bytes(6),
                self.count.to_bytes(3),
                self.inserted.to_bytes(3),
                self.started_ms.to_bytes(6),
                self.location_id.encode(),
                self.storage_ref.to_bytes(3),
                self.per_file,
            )
            + self.placement
        )

    @classmethod
    def unpack(cls, raw: bytes) -> SessionHeader:
        state, insert_by, deadline, count, inserted, started, location_id, ref, per_file = (
            _SESSION.unpack_from(raw)
        )
        as_int = int.from_bytes
        return cls(
            state,
            as_int(insert_by),
            as_int(deadline),
            as_int(count),
            as_int(inserted),
            as_int(started),
            location_id.decode(),
            as_int(ref),
            per_file,
            raw[_SESSION.size :],
        )


def pack_depths(depths: Sequence[int]) -> bytes:
    """Two bytes each; what is deeper counts as 65,535."""
    if depths and max(depths) > 0xFFFF:
        depths = [min(depth, 0xFFFF) for depth in depths]
    return struct.pack(f">{len(depths)}H", *depths)


def pack_keys(keys: Sequence[int]) -> bytes:
    """Signed 64-bit keys (numbers or an int64 array), big endian, one behind the other."""
    if isinstance(keys, np.ndarray):
        return keys.astype(">i8").tobytes()
    return struct.pack(f">{len(keys)}q", *keys)


def unpack_keys(blob: bytes) -> tuple[int, ...]:
    return struct.unpack(f">{len(blob) // 8}q", blob)


def pack_indexes(indexes: Sequence[int]) -> bytes:
    return b"".join(index.to_bytes(_INDEX_BYTES) for index in indexes)


def unpack_indexes(blob: bytes | None) -> set[int]:
    """Indexes of a session's keys; none where there is no field."""
    blob = blob or b""
    return {int.from_bytes(blob[at : at + _INDEX_BYTES]) for at in range(0, len(blob), _INDEX_BYTES)}
