"""What the use cases need from outside, as protocols.

`BlockIndex` is implemented by `kvcm_platform.index.redis_index.RedisIndex` and called by
the use cases on each RPC; its duties are in `kvcm_platform.duties`. `RegistrySource` is implemented by
`kvcm_platform.index.registry_mirror.RegistryMirror`. Records are opaque bytes here; `RecordRules`
(implemented by `kvcm_platform.index.records`) says what they mean, so that `core` never imports
the codec.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from .masks import Mask
from .placement import Serving
from .places import PoolPlaces
from .registry import GroupEntry, InstanceEntry, LocationSpecInfo, Registry, StorageEntry

Record = bytes | None
"""The locations of one block as the index keeps them; None where the block is unknown."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What one new location holds.

    `target` is the number of the spec set that was asked for (0 = all specs of the instance, n = its
    n-th group). A partial location has only those specs of it that no other location of the block has.
    """

    target: int
    specs: tuple[LocationSpecInfo, ...]
    is_partial: bool = False

    @property
    def size(self) -> int:
        """Bytes of one block."""
        return sum(spec.size for spec in self.specs)


@dataclass(frozen=True, slots=True)
class WritePlan:
    """One Start after it is known what is missing. Times are the index's clock in ms."""

    instance: InstanceEntry
    group: GroupEntry
    session_id: str
    location_id: str
    keys: Sequence[int]
    """The blocks to be written, each once."""
    depths: Sequence[int]
    """Position of each in its prompt."""
    shapes: tuple[Shape, ...]
    shape_of: Sequence[int]
    """Index into `shapes` for each key; empty = all keys have the first one."""
    insert_by_ms: int
    deadline_ms: int
    object_names: Sequence[str] = ()
    """Name of each block's object; empty = the key in hex."""
    tick_ms: int = 0
    existing: Sequence[Record] = ()
    """Records of the request's keys in order, None where a block is missing: their use is noted."""
    replaced: Mapping[int, bytes] = field(default_factory=dict)
    """Index of a key -> its record, where the block has locations and still gets one more."""
    places: PoolPlaces | None = None
    """Where the blocks go on a memory pool; other storages need none."""

    @property
    def size(self) -> int:
        """Bytes of all blocks."""
        if not self.shape_of:
            return len(self.keys) * self.shapes[0].size
        sizes = [shape.size for shape in self.shapes]
        return sum(sizes[index] for index in self.shape_of)


@dataclass(frozen=True, slots=True)
class WriteLimits:
    max_sessions: int
    max_key_count: int


class TrimMode(StrEnum):
    """TIME: SERVING blocks finished within the span. UNTIL: also WRITING ones started by its end.

    META: as UNTIL, but only the records go; the objects become orphans of their storage.
    """

    TIME = "time"
    UNTIL = "until"
    META = "meta"


@dataclass(frozen=True, slots=True)
class Removed:
    """What a removal marked: number of locations and their bytes."""

    locations: int
    size: int


@dataclass(frozen=True, slots=True)
class Prefix:
    """A matched prefix: how many blocks, and their locations as wire bytes in pieces of one or more."""

    count: int
    pieces: list[bytes]


class PrefixSource(Protocol):
    """Prefix matches (kvcm_platform.index.search_cache.SearchCache)."""

    async def prefix(
        self,
        instance: InstanceEntry,
        keys: Sequence[int],
        serving: Serving,
        depth: int,
        tick: int,
        capacity_bytes: int,
    ) -> Prefix:
        """The longest served prefix of `keys`, the first of which is at `depth` of its prompt.

        Notes the use of its blocks. `capacity_bytes` caps what may be remembered for the instance.
        """
        ...

    def cached(
        self,
        instance: InstanceEntry,
        raw: bytes,
        serving: Serving,
        depth: int,
        tick: int,
        capacity_bytes: int,
    ) -> Prefix | None:
        """The same at once, where all of it is in memory; None = `prefix` must be asked.

        `raw` holds the keys as int64 in the machine's order of bytes.
        """
        ...


class RecordRules(Protocol):
    """What a record says."""

    def served(self, record: Record, instance: InstanceEntry, serving: Serving) -> bytes | None:
        """The wire bytes of what is served of a block, None for a miss.

        A block is a hit when, of some spec set that one of its served locations was written for, every
        spec is there. Of several locations one is chosen by weight; parts are put together.
        """
        ...

    def served_by(
        self, record: Record, instance: InstanceEntry, serving: Serving, wire_type: int
    ) -> bytes | None:
        """The same with the locations on storages of one type alone; 0 = any."""
        ...

    def has_all_specs(self, record: Record, instance: InstanceEntry, serving: Serving) -> bool:
        """Whether every spec of the instance is served of this block."""
        ...

    def lacking(
        self, record: bytes, instance: InstanceEntry, shape: Shape, serving: Serving, replicas: int
    ) -> Shape | None:
        """What is to be written of `shape`: the specs that exist less than `replicas` times; None = nothing.

        A location exists when it is WRITING, DELETING, or SERVING on a storage that is served now.
        """
        ...

    def storages(self, record: bytes) -> Sequence[int]:
        """Numbers of the storages that hold locations of the block."""
        ...

    def first(self, record: Record) -> tuple[str, int, bytes] | None:
        """(location id, status, wire bytes) of the first location whatever its status."""
        ...

    def is_of_object(self, location: bytes, name: str) -> bool:
        """Whether a record or a location's wire bytes hold the object of this name, or another's."""
        ...

    def placeholder(self, instance: InstanceEntry) -> bytes: ...

    def only_specs(self, wire: bytes, names: frozenset[str]) -> bytes:
        """One or more locations with the named specs alone."""
        ...


class BlockIndex(Protocol):
    """The shared truth about blocks. All calls raise DomainError(NOT_READY) while it cannot be reached."""

    def now_ms(self) -> int: ...

    async def read_clock(self, instance: InstanceEntry) -> int:
        """The clock, in ms, that stamps an instance's blocks: no earlier than any stamp so far."""
        ...

    async def records(self, instance: InstanceEntry, keys: Sequence[int]) -> list[Record]: ...

    def touch(self, instance: InstanceEntry, records: Sequence[Record], depth: int, tick: int) -> None:
        """Notes that these records were used, the first of them at `depth`; flushed in the background.

        `tick` is the time of the request in the index's ms, one for all that a request used.
        """
        ...

    def touch_keys(self, instance: InstanceEntry, keys: Sequence[int], depth: int, tick: int) -> None:
        """The same for blocks whose records the caller did not need: read in the background."""
        ...

    async def reserve(self, plan: WritePlan, candidates: Sequence[StorageEntry]) -> StorageEntry:
        """Reserves the plan's bytes against group and type quota; returns the first candidate with room.

        Raises DomainError(CAPACITY).
        """
        ...

    async def allocate(
        self, plan: WritePlan, storage: StorageEntry
    ) -> tuple[StorageEntry, PoolPlaces] | None:
        """Takes memory for the plan's blocks; None where the storage needs no places.

        The storage in the answer has the number of the segment that was chosen. Until `write` has
        noted what the memory is for, a lease keeps it, for a few seconds past the insert-by time.
        Raises places.NoRoom.
        """
        ...

    async def out_of_memory(self, plan: WritePlan, storages: Sequence[StorageEntry]) -> None:
        """Notes that a plan is refused because none of these has memory, so that room is made there."""
        ...

    async def release(self, plan: WritePlan) -> None:
        """Gives back what was reserved for a plan that is not written."""
        ...

    async def write(
        self, plan: WritePlan, storage: StorageEntry | None, serving: Serving, limits: WriteLimits
    ) -> tuple[list[bytes], set[int]]:
        """Opens the session and inserts its blocks as WRITING.

        Returns the wire bytes of the blocks to be written, in order, and the indexes of those
        that exist by now. Without blocks `storage` is None. Raises DomainError(CAPACITY) past
        `limits`, and DomainError(NOT_READY) when the insert came too late; nothing stays reserved.
        """
        ...

    async def session_names(self, instance: InstanceEntry, session_id: str) -> list[str]:
        """Names of the objects of an open session, in the order of the locations that its Start gave.

        Raises DomainError(INTERNAL) for an unknown, used or foreign session.
        """
        ...

    async def finish(self, instance: InstanceEntry, session_id: str, mask: Mask) -> tuple[int, int]:
        """Ends an open session. Returns the numbers of blocks (written, failed).

        Raises DomainError(INTERNAL) for an unknown, used, expired or foreign session and
        DomainError(INVALID_ARGUMENT) for a mask that does not fit.
        """
        ...

    async def trim(
        self, instance: InstanceEntry, mode: TrimMode, begin_ms: int, end_ms: int, delay_ms: int
    ) -> None:
        """Removes by time, and counts what it removes.

        The trim is on record before the first block goes, so a crash does not end it. Small trims are
        complete when this returns, large ones go on in the background.
        """
        ...

    async def remove(self, instance: InstanceEntry, keys: Sequence[int], delay_ms: int) -> Removed:
        """Marks all locations of these blocks DELETING, due in `delay_ms`."""
        ...


class RequestTap(Protocol):
    """Sees the calls of instances that somebody watches (kvcm_platform.index.request_log.RequestLog).

    Everything here only notes what it is given, which nobody changes afterwards. Calls that are refused
    are not told, but for Starts that found no room.
    """

    is_open: bool
    """Whether anything is watched: while it is not, nothing here is called."""

    def query(
        self,
        instance: InstanceEntry,
        query: int,
        keys: Sequence[int] | bytes,
        mask: Mask,
        hits: int,
        tokens: int = 0,
        sw_size: int = 0,
    ) -> None:
        """A GetCacheLocation that was answered. `keys` may be int64 in the machine's order of bytes.

        `hits` of the unmasked keys were found; `tokens` = token ids that the caller sent instead of keys.
        """
        ...

    def start(
        self, instance: InstanceEntry, session_id: str, keys: Sequence[int], mask: Mask, tokens: int = 0
    ) -> None:
        """A Start that was answered, with the mask of its answer; no session id = it found no room."""
        ...

    def finish(self, instance: InstanceEntry, session_id: str, success: Mask) -> None:
        """A Finish that was carried out."""
        ...


class NoTap:
    """Stands where nobody watches."""

    is_open = False

    def query(self, *_: object, **__: object) -> None:
        """Never called."""

    start = finish = query


class FilePreparer(Protocol):
    """Makes the files of a write (kvcm_platform.metadata_service.file_preparer)."""

    async def prepare(self, storage: StorageEntry, locations: Sequence[bytes]) -> None:
        """Makes an empty file for each that the locations (wire bytes) name, where the storage wants that.

        Bounded in time, well below what clients wait. Raises OSError; files may then still appear.
        """
        ...


class RegistrySource(Protocol):
    @property
    def current(self) -> Registry: ...

    async def instance(self, instance_id: str) -> InstanceEntry | None:
        """The instance, read from the registry itself when this process does not know it yet."""
        ...


class Facts(Protocol):
    """Where the use cases note what happened (kvcm_platform.index.facts.FactsBuffer)."""

    def add(self, instance_id: str, **amounts: int) -> None: ...

    def add_group(self, group: str, **amounts: int) -> None:
        """What the limits of an instance group did (core.admission)."""
        ...
