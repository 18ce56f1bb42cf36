"""What a kind of storage must be able to do (`DataStorageBackend`), and what deletion hands to it.

Adding a kind = one module with a class of this shape and one row in `registry.BACKENDS`.
Calls may take long; none is made while a request waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.uris import DataUri


@dataclass(frozen=True, slots=True)
class FreedObject:
    """One object whose space is given back. `slots_in_file` is 1 where a file holds one block."""

    uri: DataUri
    slots_in_file: int = 1
    is_second_pass: bool = False
    """Freed once before, when its write failed; a late writer may have come in between."""


class SlotLedger(Protocol):
    """Which slots of shared files are freed; kept outside the process (index.slots.RedisSlotLedger)."""

    async def free(
        self, file: str, slots_in_file: int, slots: Sequence[int], *, is_second_pass: bool
    ) -> bool:
        """Notes freed slots, again and again if need be; True when the whole file is free."""
        ...

    async def forget(self, files: Sequence[str]) -> None:
        """Drops the notes of files that are gone and whose deletions are settled."""
        ...


class DataStorageBackend(Protocol):
    """One configured storage. `open` before use; `close` when its configuration changes."""

    entry: StorageEntry

    async def open(self) -> None:
        """Makes the storage usable (a missing root folder is created). Raises OSError."""
        ...

    async def close(self) -> None: ...

    async def usage_ratio(self) -> float | None:
        """Used share of the device, 0..1; None where the storage cannot tell."""
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
