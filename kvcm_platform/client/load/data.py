"""The bytes of an engine's blocks: written as their names say, read back and compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvcm_platform.core.registry import LocationSpecInfo
from kvcm_platform.core.storage_configs import StorageDescription
from kvcm_platform.transfer import BlockPattern, TransferError, Transfers, wrong_bytes

from ..types import Locations

TRANSFER_SECONDS = 5.0
"""What an engine grants a storage; a model that computes the blocks again is not slower."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of reading hit blocks: bytes read, those of them that differ, parts without an answer."""

    bytes_read: int
    bytes_wrong: int
    failed_reads: int


class BlockData:
    """Writes and checks the blocks of one instance. Safe to share among its engines."""

    def __init__(self, transfers: Transfers, instance_id: str, specs: Iterable[LocationSpecInfo]) -> None:
        self._transfers = transfers
        self._patterns = {spec.name: BlockPattern(instance_id, spec.name, spec.size) for spec in specs}

    def write(self, keys: Sequence[int], locations: Locations) -> tuple[list[bool], int]:
        """Write all parts of each block. Returns which blocks are whole, and the bytes written."""
        owners, uris, contents = self._lay_out(keys, locations)
        results = self._transfers.write_batch(list(zip(uris, contents, strict=True)))
        is_whole = [True] * len(keys)
        written = 0
        for owner, content, error in zip(owners, contents, results, strict=True):
            if error is None:
                written += len(content)
            else:
                is_whole[owner] = False
        return is_whole, written

    def know(self, storages: Iterable[StorageDescription]) -> None:
        """Takes in what a registration said of the storages."""
        self._transfers.update(storages)

    def check(self, keys: Sequence[int], locations: Locations) -> Checked:
        """Read all parts of each block and compare them with what was written."""
        _, uris, contents = self._lay_out(keys, locations)
        read = wrong = failed = 0
        for found, expected in zip(self._transfers.read_batch(uris), contents, strict=True):
            if isinstance(found, TransferError):
                failed += 1
            else:
                read += len(found)
                wrong += wrong_bytes(found, expected)
        return Checked(read, wrong, failed)

    def _lay_out(self, keys: Sequence[int], locations: Locations) -> tuple[list[int], list[str], list[bytes]]:
        """For every part: the index of its block, its URI, its content; grouped by spec, so that
        slots which lie side by side come one after the other.
        """
        by_spec: dict[str, tuple[list[int], list[str]]] = {}
        for index, parts in enumerate(locations.parts()):
            for name, uri in parts:
                indexes, uris = by_spec.setdefault(name, ([], []))
                indexes.append(index)
                uris.append(uri)
        owners: list[int] = []
        all_uris: list[str] = []
        contents: list[bytes] = []
        for name, (indexes, uris) in by_spec.items():
            owners += indexes
            all_uris += uris
            contents += self._patterns[name].blocks(keys[index] for index in indexes)
        return owners, all_uris, contents
