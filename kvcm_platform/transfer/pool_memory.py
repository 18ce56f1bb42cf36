"""The memory of a pool segment as programs on its host see it: mapped, looked up, read without a lock.

A reader looks at the header, copies, and compares the copy with the checksum of the range that it asked
for; then it looks at the header again. Bytes of another owner cannot pass: the checksum is bound to the
range id. Only the agent changes headers (`mempool_agent/slots.py`).
"""

from __future__ import annotations

import mmap
import os
import threading
from dataclasses import dataclass
from typing import Self

import xxhash

from kvcm_platform.core.pool_layout import (
    HEADER_WORDS,
    MAGIC,
    OWNER,
    OWNER_AT,
    SLAB_BYTES,
    SLAB_WORDS,
    SUPERBLOCK,
    VERSION,
    Place,
    SegmentLayout,
    SlotState,
    carving_word,
    owner_of,
)


class BadSegment(ValueError):
    """The file is not a pool segment, or another one than expected."""


class NotReadable(Exception):
    """The range's bytes are not in its slot; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Superblock:
    """What a segment's file says about itself. `segment_id` is 16 hexadecimal digits."""

    node_id: str
    segment_id: str
    layout: SegmentLayout
    created_at_us: int

    def pack(self) -> bytes:
        slabs, number = self.layout.slabs, int(self.segment_id, 16)
        return SUPERBLOCK.pack(
            MAGIC, VERSION, SLAB_BYTES, number, slabs, self.created_at_us, self.node_id.encode()
        )

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Raises BadSegment."""
        if len(data) < SUPERBLOCK.size:
            raise BadSegment("the file is too short")
        magic, version, slab_bytes, number, slabs, created, node = SUPERBLOCK.unpack(data[: SUPERBLOCK.size])
        if magic != MAGIC:
            raise BadSegment("the file does not begin like a segment")
        if (version, slab_bytes) != (VERSION, SLAB_BYTES):
            raise BadSegment(f"layout {version} with slabs of {slab_bytes} bytes is not known here")
        node_id = node.rstrip(b"\0").decode(errors="replace")
        return cls(node_id, f"{number:016x}", SegmentLayout(slabs), created)


def payload_checksum(data: bytes | bytearray | memoryview, range_id: int) -> int:
    """What a range's header keeps of its bytes: XXH3-64 with the range id as seed."""
    return int(xxhash.xxh3_64_intdigest(data, range_id))


@dataclass(frozen=True, slots=True)
class Slot:
    """What a header says of one range. ABSENT to it = the default."""

    state: SlotState = SlotState.EMPTY
    size: int = 0
    checksum: int = 0
    committed_at_us: int = 0


_ABSENT = Slot()


class SegmentMemory:
    """A mapped segment. Safe to share among threads; the mapping lives as long as anything uses it."""

    def __init__(self, mapping: mmap.mmap, superblock: Superblock) -> None:
        self.superblock = superblock
        self.layout = superblock.layout
        self._writable: SegmentMemory | None = None
        self._lock = threading.Lock()
        whole = memoryview(mapping)
        at = self.layout.slab_table_at
        self._owner = whole[OWNER_AT : OWNER_AT + OWNER.size]
        self.slab_words = whole[at : at + self.layout.slabs * SLAB_WORDS * 8].cast("Q")
        self.header_words = whole[self.layout.header_table_at : self.layout.data_at].cast("Q")
        self._data = whole[self.layout.data_at :]

    @classmethod
    def map(cls, path: str, *, segment_id: str = "", is_writable: bool = False) -> Self:
        """Maps the segment in this file. Raises OSError; BadSegment if it is none, or not `segment_id`."""
        handle = os.open(path, (os.O_RDWR if is_writable else os.O_RDONLY) | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            superblock = Superblock.unpack(os.pread(handle, SUPERBLOCK.size, 0))
            if segment_id and superblock.segment_id != segment_id:
                raise BadSegment(f"{path} is segment {superblock.segment_id}, not {segment_id}")
            size = superblock.layout.file_bytes
            if os.fstat(handle).st_size < size:
                raise BadSegment(f"{path} is shorter than its superblock says")
            access = mmap.PROT_READ | (mmap.PROT_WRITE if is_writable else 0)
            return cls(mmap.mmap(handle, size, mmap.MAP_SHARED, access), superblock)
        finally:
            os.close(handle)

    def for_writing(self, path: str) -> SegmentMemory:
        """The same segment, mapped for writing too. Raises OSError, BadSegment."""
        with self._lock:
            if self._writable is None:
                self._writable = SegmentMemory.map(
                    path, segment_id=self.superblock.segment_id, is_writable=True
                )
            return self._writable

    @property
    def owner(self) -> str:
        """Who claimed the memory; "" while nobody did."""
        length, name = OWNER.unpack(self._owner)
        return bytes(name[:length]).decode(errors="replace")

    def claim(self, owner: str) -> str:
        """Puts a name on memory without one; the name that it carries then. For the agent alone."""
        data = owner.encode()
        if not self.owner:
            self._owner[2 : 2 + len(data)] = data
            self._owner[:2] = len(data).to_bytes(2, "little")
        return self.owner

    def payload(self, place: Place) -> memoryview:
        """The bytes of a slot that the payload takes."""
        return self._data[place.offset : place.offset + place.size]

    def look(self, place: Place, range_id: int) -> Slot:
        """What the header says of this range; `Slot()` where the slot is not, or no longer, its own."""
        word, slabs = carving_word(place.kind, place.first_slab), self.slab_words
        for slab in place.slabs:
            if slabs[slab * SLAB_WORDS] != word or range_id <= slabs[slab * SLAB_WORDS + 1]:
                return _ABSENT
        at, words = place.header * HEADER_WORDS, self.header_words
        owner = words[at]
        slot = Slot(SlotState(owner & 3), words[at + 1], words[at + 2], words[at + 3])
        if owner_of(owner)[0] != range_id or words[at] != owner:
            return _ABSENT
        return slot

    def readable(self, place: Place, range_id: int) -> Slot:
        """As `look`, for a range whose bytes are wanted. Raises NotReadable."""
        slot = self.look(place, range_id)
        if slot.state is SlotState.COMMITTED and slot.size == place.size:
            return slot
        raise NotReadable(_WHY.get(slot.state, "committed with another size"))

    def read(self, place: Place, range_id: int) -> bytes:
        """The bytes that this range was committed with. Raises NotReadable."""
        slot = self.readable(place, range_id)
        data = bytes(self.payload(place))
        self.confirm(place, range_id, slot, data)
        return data

    def confirm(self, place: Place, range_id: int, slot: Slot, data: bytes | memoryview) -> None:
        """Raises NotReadable unless `data` is what the range was committed with, and still owns its slot."""
        is_whole = payload_checksum(data, range_id) == slot.checksum
        if self.look(place, range_id) != slot:
            raise NotReadable("the slot got another owner while it was read")
        if not is_whole:
            raise NotReadable("the bytes are not those that were written: the checksum differs")


_WHY = {
    SlotState.EMPTY: "not there: never written, or given to another range",
    SlotState.WRITING: "not written to its end",
    SlotState.RELEASED: "deleted",
}
