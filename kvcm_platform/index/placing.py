"""From a write plan to the record entries of its blocks. No I/O; cheap per block, since Start pays for it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kvcm_platform.core import uris
from kvcm_platform.core.ports import WritePlan
from kvcm_platform.core.registry import LocationSpecInfo, StorageEntry
from kvcm_platform.core.types import LOCATION_WIRE_TYPE, LocationStatus

from . import codec

RUN = 16
"""New blocks of one Start that share one place in the recency order (DESIGN 4.1)."""
SESSION_OPEN = 1


def build_entries(plan: WritePlan, storage: StorageEntry, now_ms: int) -> list[bytes]:
    """Record entries of the plan's blocks, in order. Blocks of one spec set are placed together.

    A function of the plan and the storage's configuration alone (but for the time), so that a
    sweeper can rebuild what a crashed Start had named.
    """
    if not plan.spec_sets:
        return _entries_of_set(plan, storage, 0, range(len(plan.keys)), now_ms)
    entries: dict[int, bytes] = {}
    for spec_set in sorted(set(plan.spec_sets)):
        indexes = [index for index, own in enumerate(plan.spec_sets) if own == spec_set]
        entries.update(zip(indexes, _entries_of_set(plan, storage, spec_set, indexes, now_ms), strict=True))
    return [entries[index] for index in range(len(plan.keys))]


def _entries_of_set(
    plan: WritePlan, storage: StorageEntry, spec_set: int, indexes: Sequence[int], now_ms: int
) -> list[bytes]:
    specs = plan.specs[spec_set]
    keys = [plan.keys[index] for index in indexes]
    columns = uris.build_uris(storage, plan.instance.instance_id, specs, keys, plan.location_id)
    frames = _Frames(storage, specs)
    head = codec.entry_head(LocationStatus.WRITING, spec_set, codec.storage_ref(storage), plan.location_id)
    size_and_time = sum(spec.size for spec in specs).to_bytes(6) + now_ms.to_bytes(6)
    shape = struct.pack(">HH", len(keys) - 1, uris.slots_per_file(storage))
    positions = struct.pack(f">{len(keys)}H", *range(len(keys)))
    ordinals = struct.pack(f">{len(keys)}H", *(index // RUN for index in indexes))
    at = 0
    entries = []
    for wire in frames.wires(columns):
        entries.append(
            b"".join((head, ordinals[at : at + 2], size_and_time, positions[at : at + 2], shape, wire))
        )
        at += 2
    return entries


class _Frames:
    """Encodes locations of one kind. What stands around a URI depends on its length alone and is kept."""

    def __init__(self, storage: StorageEntry, specs: Sequence[LocationSpecInfo]) -> None:
        self._names = [spec.name for spec in specs]
        self._opening = codec.location_opening(LOCATION_WIRE_TYPE[storage.type], len(specs))
        self._around: list[dict[int, bytes]] = [{} for _ in specs]
        self._before: dict[int, bytes] = {}

    def wires(self, columns: Sequence[Sequence[str]]) -> list[bytes]:
        """Length-prefixed wire bytes of each block; `columns` has one list of URIs per spec."""
        # URIs hold no line breaks (core.validation), so one encoding serves a whole column.
        encoded = ["\n".join(column).encode().split(b"\n") for column in columns]
        if len(encoded) == 1:
            around = self._around[0]
            result = []
            for uri in encoded[0]:
                length = len(uri)
                if length not in around:
                    around[length] = self._open(codec.spec_frame(self._names[0], length), length)
                result.append(around[length] + uri)
            return result
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
        return (len(opening) + length).to_bytes(3) + opening


def never_inserted(plan: WritePlan, entries: Sequence[bytes], start: int) -> list[bytes]:
    """(key, entry) pairs, flattened, of the blocks from `start` on."""
    pairs: list[bytes] = []
    for key, entry in zip(plan.keys[start:], entries[start:], strict=True):
        pairs += [codec.pack_keys((key,)), entry]
    return pairs


def session_header(plan: WritePlan, storage: StorageEntry | None, now_ms: int) -> bytes:
    return codec.SessionHeader(
        state=SESSION_OPEN,
        insert_by_ms=plan.insert_by_ms,
        deadline_ms=plan.deadline_ms,
        count=len(plan.keys),
        inserted=0,
        started_ms=now_ms,
        location_id=plan.location_id,
        storage_ref=0 if storage is None else codec.storage_ref(storage),
        per_file=1 if storage is None else uris.slots_per_file(storage),
        spec_sets=plan.spec_sets,
    ).pack()
