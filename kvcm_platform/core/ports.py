"""What the use cases need from outside, as protocols.

`BlockIndex` is implemented by `kvcm_platform.index.redis_index.RedisIndex` and called by
`core.metadata` on each RPC and by the duties of `core.duties`. `RegistrySource` is implemented by
`kvcm_platform.index.registry_mirror.RegistryMirror`. Records are opaque bytes here; `RecordRules`
(implemented by `kvcm_platform.index.records`) says what they mean, so that `core` never imports
the codec.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from .masks import Mask
from .registry import GroupEntry, InstanceEntry, LocationSpecInfo, Registry, StorageEntry

Record = bytes | None
"""The locations of one block as the index keeps them; None where the block is unknown."""


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
    spec_sets: bytes
    """Number of each block's spec set; empty = all blocks have set 0."""
    specs: Mapping[int, tuple[LocationSpecInfo, ...]]
    """Spec set -> the specs that its blocks have. Set 0 = all specs of the instance, n = its n-th group."""
    insert_by_ms: int
    deadline_ms: int
    tick_ms: int = 0
    existing: Sequence[Record] = ()
    """Records of the request's keys in order, None where a block is missing: their use is noted."""

    @property
    def size(self) -> int:
        """Bytes of all blocks."""
        sizes = {number: sum(spec.size for spec in specs) for number, specs in self.specs.items()}
        if not self.spec_sets:
            return len(self.keys) * sizes[0]
        return sum(sizes[number] for number in self.spec_sets)


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
        served_now: frozenset[int],
        depth: int,
        tick: int,
        capacity_bytes: int,
    ) -> Prefix:
        """The longest served prefix of `keys`, the first of which is at `depth` of its prompt.

        Notes the use of its blocks. `capacity_bytes` caps what may be remembered for the instance.
        """
        ...


class RecordRules(Protocol):
    """What a record says."""

    def served(self, record: Record, served_now: frozenset[int]) -> bytes | None:
        """The wire bytes of a serving location on a served storage, else None."""
        ...

    def exists(self, record: Record, served_now: frozenset[int]) -> bool:
        """WRITING, DELETING, or SERVING on a storage that is served now: nothing to write."""
        ...

    def first(self, record: Record) -> tuple[str, int, bytes] | None:
        """(location id, status, wire bytes) of the first location whatever its status."""
        ...

    def placeholder(self, instance: InstanceEntry) -> bytes: ...

    def only_specs(self, wire: bytes, names: frozenset[str]) -> bytes:
        """One or more locations with the named specs alone."""
        ...


class BlockIndex(Protocol):
    """The shared truth about blocks. All calls raise DomainError(NOT_READY) while it cannot be reached."""

    def now_ms(self) -> int: ...

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

    async def write(
        self, plan: WritePlan, storage: StorageEntry | None, served_now: frozenset[int], limits: WriteLimits
    ) -> tuple[list[bytes], set[int]]:
        """Opens the session and inserts its blocks as WRITING.

        Returns the wire bytes of the blocks to be written, in order, and the indexes of those
        that exist by now. Without blocks `storage` is None. Raises DomainError(CAPACITY) past
        `limits`, and DomainError(NOT_READY) when the insert came too late; nothing stays reserved.
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
    ) -> int:
        """Removes by time; returns the locations marked so far.

        The trim is on record before the first block goes, so a crash does not end it. Small trims are
        complete when this returns, large ones go on in the background.
        """
        ...

    async def remove(self, instance: InstanceEntry, keys: Sequence[int], delay_ms: int) -> Removed:
        """Marks all locations of these blocks DELETING, due in `delay_ms`."""
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
