"""What a type of storage must be able to do (`DataStorageBackend`) and say of itself (`StorageKind`).

Adding a type = one module with a class of this shape and a `StorageKind`, and one row in `registry.KINDS`.
Calls may take long; none is made while a request waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kvcm_platform.core.deletion import FreedSlots
from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.uris import DataUri, object_name


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a type of storage declares; the contract suite holds each backend to it."""

    needs_mount: bool = False
    """Its data is a directory that every host must have mounted at the same path."""
    has_slot_files: bool = False
    """Several blocks may share a file (`key_count_per_file`)."""
    can_punch_holes: bool = False
    """The space of one slot of a shared file comes back by itself, where its file system can."""
    has_capacity: bool = False
    """A probe says how many bytes are used, and of how many."""
    has_segments: bool = False
    """It is a family of memory segments, each with a number of its own and each lost with its node."""
    keeps_write_times: bool = True
    """Its objects say when they were written."""
    may_lose_content: bool = False
    """What it acknowledged may be gone without a deletion (memory); see `ProbeResult.content_life`."""


@dataclass(frozen=True, slots=True)
class SegmentSeen:
    """A memory segment as its node showed it to a probe."""

    node_id: str
    segment_id: str
    """New with every life of the node's memory: blocks of an earlier one are gone."""
    address: str
    """`host:port` of the node."""
    size_bytes: int
    used_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """`message` says why a probe failed; `latency_ms` is None where it did not end."""

    is_ok: bool
    message: str = ""
    latency_ms: float | None = None
    is_full: bool = False
    """It answers and can be read, but takes no new bytes: no space, quota used up, or read-only."""
    used_bytes: int | None = None
    capacity_bytes: int | None = None
    """Of the device behind the storage, whoever uses it. None where the storage cannot tell."""
    content_life: str = ""
    """Names the life of what is stored: another than before, and any object may be gone. "" = cannot tell."""
    dropped_objects: int | None = None
    """Objects that the storage dropped by itself, counted since its service began; None = it does not say."""
    segments: tuple[SegmentSeen, ...] = ()


@dataclass(frozen=True, slots=True)
class FreedObject:
    """One object whose space is given back. `slots_in_file` is 1 where a file holds one block."""

    uri: DataUri
    slots_in_file: int = 1
    is_second_pass: bool = False
    """Freed once before, when its write failed; a late writer may have come in between."""
    was_served: bool = True
    """Its write was finished. A late writer of one that was not may still come."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """Something found on a storage: a file with all its slots, an object, a range of memory."""

    uri: DataUri
    """As far as it can be told from the storage; enough for `delete` as an object of its own."""
    size_bytes: int
    """Space that it takes up."""
    written_at: float | None
    """Unix seconds of its last write; None where the storage keeps none."""
    is_ours: bool = True
    """Whether it is named and placed like what this platform stores."""
    instance_id: str = ""
    """Whose block it is, where its name tells."""

    @property
    def name(self) -> str:
        """What the URIs of the blocks in it have in common (`core.uris.object_name`)."""
        return object_name(self.uri)


class SlotLedger(Protocol):
    """Which slots of shared files are freed; kept outside the process (index.pending.RedisSlotLedger)."""

    async def free(self, freed: Sequence[FreedSlots]) -> list[bool]:
        """Notes freed slots, again and again if need be; True for each file that is wholly free."""
        ...

    async def forget(self, files: Sequence[str]) -> None:
        """Drops the notes of files that are gone and whose deletions are settled."""
        ...


class RangeLedger(Protocol):
    """Which ranges of a memory segment are taken; kept outside the process, one ledger a segment."""

    async def give_back(self, range_ids: Sequence[int]) -> None:
        """These ranges may be handed out again. Ids that are not taken (any more) change nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Ledgers:
    """What a backend notes outside of its storage, for the storage's or the segment's number."""

    slots: SlotLedger
    ranges: RangeLedger | None = None
    """Only pools use it."""


class DataStorageBackend(Protocol):
    """One configured storage. `open` before use; `close` when its configuration changes."""

    entry: StorageEntry

    async def open(self) -> None:
        """Makes the storage usable (a missing root folder is created). Raises OSError."""
        ...

    async def close(self) -> None: ...

    async def usage_ratio(self) -> float | None:
        """Used share of the device, 0..1; None where the storage cannot tell. Raises OSError."""
        ...

    async def delete(self, objects: Sequence[FreedObject]) -> list[str]:
        """Frees objects; one reason per object, "" where it is gone. Repeating is harmless."""
        ...

    async def settled(self, objects: Sequence[FreedObject]) -> None:
        """The deletion of these objects is off the books: notes about them may go."""
        ...

    async def exist(self, uris: Sequence[DataUri]) -> list[bool]:
        """Whether each object is there, its space not given back. Raises OSError when that cannot be seen."""
        ...

    def objects(self) -> AsyncIterator[StoredObject]:
        """Everything on the storage, in no order, in bounded memory. Raises OSError.

        What is written or deleted meanwhile may or may not be among it.
        """
        ...

    async def claim(self, owner: str) -> str:
        """Puts the owner's name on a storage that carries none; the name that it carries then.

        A storage with no place for a name says `owner`. Raises OSError.
        """
        ...


@dataclass(frozen=True, slots=True)
class ProbeOrder:
    """How a storage is to be probed. A probe blocks: `storage.probe.probe` runs it beside the caller."""

    seconds: float
    """What it may take altogether. Who waits for it is let go then, whether or not it comes back."""
    may_create: bool = False
    """Make what a new storage lacks (its root folder, its marker) first.

    The periodic checks never do: below a mount that went away they would fill the local disk.
    """
    owner: str = ""
    """The name of this installation, for a storage that is made."""
    is_trial: bool = False
    """It is not a storage yet: what `may_create` would make may be missing, and nothing is left behind."""


@dataclass(frozen=True, slots=True)
class StorageKind:
    """One row of the registry: everything that the platform knows of a type of storage."""

    capabilities: Capabilities
    make: Callable[[StorageEntry, Ledgers], DataStorageBackend]
    probe: Callable[[StorageEntry, ProbeOrder], ProbeResult]
    """One blocking try. An OSError is a failed probe (ENOSPC, EDQUOT and EROFS: a full storage)."""
    target: Callable[[StorageEntry], str]
    """What a hung probe hangs on: while one does, no other is sent after it."""
    tidy: Callable[[StorageEntry, float], int] | None = None
    """Removes empty folders not changed since a unix time; returns their number. Blocks. Raises OSError."""
