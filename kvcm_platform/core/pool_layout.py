"""How the memory of a pool segment is laid out: what the allocator, the node agents and readers agree on.

A segment is one file in shared memory: superblock, slab table, header table, data. Offsets (in URIs, in
the allocator, in calls to agents) count from the beginning of the data.

The data is cut into slabs. A run of 1 to 64 contiguous slabs is carved into equal slots of one class; when
its last slot is free the slabs go back and may be carved in another way. A slot holds payload alone; its
header (who owns it, size, checksum) stands in a table of its own, so a power of two fits without waste,
payloads lie on whole KiB, and no payload can ever be taken for a header.

An owner is a range id. Range ids rise with every allocation in a segment and none is issued twice; that
is what all rules of access rest on:

- a slab entry names the class and the first slab of its run, `floor` (ids up to it belong to earlier
  lives of the slab) and `high` (the highest id seen);
- an operation of a range whose class and run the slabs have, above their floor: the header decides.
  A higher id there: refused as stale. Equal: the owner. Lower: the new owner;
- where class or run differ, the range takes the slabs over if no higher id was seen in any of them, else
  it is stale.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .uris import DataUri

Offsets = TypeVar("Offsets", int, "NDArray[np.int64]")
"""One offset, or many."""

MAGIC = b"KVCMPOOL"
VERSION = 1

SLAB_BYTES = 16 << 20
MIN_SLOT_BYTES = 4096
"""Smaller payloads take a slot of this size. One header is kept for each so many bytes of a slab."""
MAX_PAYLOAD_BYTES = 1 << 30
MAX_SEGMENT_BYTES = 64 << 40
NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
"""Names of nodes stand in URIs and in names of files."""
MAX_RANGE_ID = (1 << 53) - 1
"""Exact in a double, which is what Lua counts with."""

_MAX_TAIL = 16
"""At most 1/16 of a run stays behind its last slot, so at most a quarter of its memory is not payload."""


@dataclass(frozen=True, slots=True)
class SlotClass:
    """Slots of `slot_bytes`, carved `slots` at a time from runs of `slabs` contiguous slabs."""

    slot_bytes: int
    slabs: int
    slots: int

    def first_slab(self, offset: int) -> int | None:
        """The first slab of the run in which a slot begins at `offset`; None where none of this class can.

        The run is unambiguous: were two beginnings possible, a shorter run would have no tail at all.
        """
        slab = offset // SLAB_BYTES
        for first in range(slab, max(-1, slab - self.slabs), -1):
            index, rest = divmod(offset - first * SLAB_BYTES, self.slot_bytes)
            if rest == 0 and index < self.slots:
                return first
        return None


@lru_cache(maxsize=4096)
def slot_class(payload_bytes: int) -> SlotClass:
    """The class for payloads of this size. Raises ValueError outside 1..MAX_PAYLOAD_BYTES.

    Four classes a doubling (1, 1.25, 1.5, 1.75): above 4 KiB a slot is less than a quarter larger.
    """
    if not 0 < payload_bytes <= MAX_PAYLOAD_BYTES:
        raise ValueError(f"must be between 1 and {MAX_PAYLOAD_BYTES} bytes, not {payload_bytes}")
    size = slot_bytes(payload_bytes)
    slabs = -(-size // SLAB_BYTES)
    while (slabs * SLAB_BYTES) % size * _MAX_TAIL > slabs * SLAB_BYTES:
        slabs += 1
    return SlotClass(size, slabs, slabs * SLAB_BYTES // size)


def slot_bytes(payload_bytes: int) -> int:
    """Size of the slot that a payload takes."""
    if payload_bytes <= MIN_SLOT_BYTES:
        return MIN_SLOT_BYTES
    step = 1 << (payload_bytes - 1).bit_length() - 3
    return -(-payload_bytes // step) * step


# --- the file of a segment --------------------------------------------------------------------------------

SUPERBLOCK = struct.Struct("<8sIIQQQ64s")
"""Magic, version, bytes of a slab, segment id, slabs, created (µs since 1970), node id (NUL-padded)."""
OWNER = struct.Struct("<H254s")
"""Who claimed the segment: bytes of the name, and the name. The length is written last; 0 = nobody."""
OWNER_AT = 256
SUPERBLOCK_BYTES = 4096
"""Superblock and owner, and the room after them."""

SLAB_ENTRY_BYTES = 32
SLAB_WORDS = SLAB_ENTRY_BYTES // 8
"""Words of a slab entry: carving (`carving_word`; 0 = never carved), floor, high, unused."""

HEADER_BYTES = 32
HEADER_WORDS = HEADER_BYTES // 8
"""Words of a slot header: owner (`owner_word`), payload bytes, checksum, committed at (µs since 1970).

The checksum is XXH3-64 of the payload with the range id as seed, so bytes and owner are bound together.
Words are native 64-bit integers, each written at once; the owner word is what makes a change take effect.
"""
_HEADERS_PER_SLAB = SLAB_BYTES // MIN_SLOT_BYTES
_DATA_ALIGNMENT = 2 << 20


class SlotState(IntEnum):
    """What the owner of a slot has done with it. Only COMMITTED may be read."""

    EMPTY = 0
    WRITING = 1
    COMMITTED = 2
    RELEASED = 3


def owner_word(range_id: int, state: SlotState) -> int:
    """Owner and state in one word, so that both change at once."""
    return range_id << 2 | state


def owner_of(word: int) -> tuple[int, SlotState]:
    return word >> 2, SlotState(word & 3)


def carving_word(kind: SlotClass, first_slab: int) -> int:
    """Class and run of a slab in one word; never 0."""
    return kind.slot_bytes >> 10 << 32 | first_slab


def uncarved(word: int) -> tuple[int, int]:
    """Bytes of a slot and the first slab of the run."""
    return word >> 32 << 10, word & 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class SegmentLayout:
    """Where things lie in the file of a segment with this many slabs."""

    slabs: int

    @classmethod
    def of_size(cls, size_bytes: int) -> Self:
        """Whole slabs only."""
        return cls(size_bytes // SLAB_BYTES)

    @property
    def size_bytes(self) -> int:
        """Bytes of data: what the allocator deals out."""
        return self.slabs * SLAB_BYTES

    @property
    def slab_table_at(self) -> int:
        return SUPERBLOCK_BYTES

    @property
    def header_table_at(self) -> int:
        return _round_up(SUPERBLOCK_BYTES + self.slabs * SLAB_ENTRY_BYTES, SUPERBLOCK_BYTES)

    @property
    def data_at(self) -> int:
        end = self.header_table_at + self.slabs * _HEADERS_PER_SLAB * HEADER_BYTES
        return _round_up(end, _DATA_ALIGNMENT)

    @property
    def file_bytes(self) -> int:
        return self.data_at + self.size_bytes

    @staticmethod
    def header_index(offsets: Offsets) -> Offsets:
        """Places in the header table of the slots that begin at `offsets`."""
        return offsets // MIN_SLOT_BYTES

    def place(self, offset: int, payload_bytes: int) -> Place:
        """The slot for a payload of this size that begins at `offset`. Raises BadPlace."""
        try:
            kind = slot_class(payload_bytes)
        except ValueError as error:
            raise BadPlace("size", str(error)) from error
        first = kind.first_slab(offset)
        if first is None:
            raise BadPlace("offset", f"no slot for {payload_bytes} bytes begins at {offset}")
        if first + kind.slabs > self.slabs:
            raise BadPlace("offset", f"{offset} is beyond the segment's {self.size_bytes} bytes")
        return Place(offset, payload_bytes, kind, first, self.header_index(offset))


@dataclass(frozen=True, slots=True)
class Place:
    """A slot of a segment. `header` is its place in the header table."""

    offset: int
    size: int
    kind: SlotClass
    first_slab: int
    header: int

    @property
    def slabs(self) -> range:
        """The slabs of its run."""
        return range(self.first_slab, self.first_slab + self.kind.slabs)


class BadPlace(ValueError):
    """No slot of the segment can be meant; `field` is what is wrong."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


# --- calls to agents --------------------------------------------------------------------------------------

MAX_RANGES = 4096
"""Ranges of one call, and blocks of one stream."""
CHUNK_BYTES = 1 << 20
"""Bytes of a block that one message of a stream carries at most."""


# --- ranges -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PoolRange:
    """One allocation: what a `pace` URI says."""

    node_id: str
    offset: int
    size: int
    range_id: int


def pool_range(uri: DataUri) -> PoolRange:
    """Reads `pace://<storage>/<offset>?media_type=&node_id=&range_id=&size=`. Raises ValueError."""
    if uri.scheme != "pace":
        raise ValueError(f"not the URI of a memory pool: scheme {uri.scheme}")
    node_id = uri.params.get("node_id", "")
    if not node_id:
        raise ValueError("the URI has no node_id")
    try:
        offset, range_id = int(uri.path.removeprefix("/")), int(uri.params.get("range_id", ""))
    except ValueError as error:
        raise ValueError("offset and range_id of the URI must be numbers") from error
    if offset < 0 or not 0 < range_id <= MAX_RANGE_ID:
        raise ValueError("offset or range_id of the URI is out of range")
    slot_class(uri.size)  # the size has a class
    return PoolRange(node_id, offset, uri.size, range_id)
