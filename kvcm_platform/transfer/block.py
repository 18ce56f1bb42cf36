"""What moves the bytes of blocks to and from one storage (`BlockTransfer`), and how that fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import xxhash


class TransferError(Exception):
    """A block's bytes could not be moved; `uri` is the first one concerned."""

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(f"{uri}: {reason}")
        self.uri = uri
        self.reason = reason


class BlockTransfer(Protocol):
    """Reads and writes blocks of one storage by their URIs. Safe to share among threads.

    No call lasts longer than the time limit that the transfer was made with, on any storage
    that a program can be kept from hanging on.
    """

    def write_batch(self, blocks: Sequence[tuple[str, bytes | memoryview]]) -> list[None | TransferError]:
        """Write many blocks. In order, None for each that is written, or the reason why it is not.

        ValueError if some data is not exactly as long as its URI says; others may then be written.
        """
        ...

    def read_batch(
        self, uris: Sequence[str], checksums: Sequence[int] | None = None
    ) -> list[bytes | TransferError]:
        """The bytes of each block in order, or in its place the reason why there are none.

        With `checksums` (of `block_checksum`), one a URI, bytes that differ from what was written
        are a reason too.
        """
        ...

    def close(self) -> None:
        """Ends what the transfer holds; calls that are under way are finished first."""
        ...


def block_checksum(data: bytes | memoryview) -> int:
    """64-bit XXH3 of a block's bytes."""
    return int(xxhash.xxh3_64_intdigest(data))


def verified(
    uris: Sequence[str], found: Sequence[bytes | TransferError], checksums: Sequence[int] | None
) -> list[bytes | TransferError]:
    """What was read, with an error in the place of bytes that do not have their checksum."""
    if checksums is None:
        return list(found)
    return [_verified(*row) for row in zip(uris, found, checksums, strict=True)]


def _verified(uri: str, data: bytes | TransferError, checksum: int) -> bytes | TransferError:
    if isinstance(data, bytes) and block_checksum(data) != checksum:
        return TransferError(uri, "the bytes are not those that were written: the checksum differs")
    return data
