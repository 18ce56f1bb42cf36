"""Snapshot files of a MemoryStore: written beside and moved into place, with a checksum at the end.

magic 8 | per item: table length 1, key length 2, value length 4, table, key, value | … | 0 | BLAKE2 32
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

MAGIC = b"KVCMSNP1"
_LENGTHS = struct.Struct(">BHI")
_BUFFER = 1 << 20
_DIGEST = 32


class SnapshotBroken(Exception):
    """The file is not a whole snapshot; the sentence says why."""


def save(path: Path, items: Iterable[tuple[bytes, bytes, bytes]]) -> None:
    """Replaces the snapshot by (table, key, value) items. Raises OSError; the old file stays then."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    digest = hashlib.blake2b(digest_size=_DIGEST)
    try:
        with open(draft, "wb") as file:
            buffer = bytearray(MAGIC)
            for table, key, value in items:
                buffer += _LENGTHS.pack(len(table), len(key), len(value)) + table + key + value
                if len(buffer) >= _BUFFER:
                    digest.update(buffer)
                    file.write(buffer)
                    buffer.clear()
            buffer.append(0)
            digest.update(buffer)
            file.write(buffer)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load(path: Path) -> Iterator[tuple[bytes, bytes, bytes]]:
    """The items of a snapshot that was checked as a whole. Raises SnapshotBroken, OSError."""
    raw = path.read_bytes()
    body = memoryview(raw)[:-_DIGEST]
    if len(raw) < len(MAGIC) + 1 + _DIGEST or raw[: len(MAGIC)] != MAGIC:
        raise SnapshotBroken("it is no snapshot of this version")
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != raw[-_DIGEST:]:
        raise SnapshotBroken("its checksum does not fit: it was cut off or changed")
    return _items(raw)


def _items(raw: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    at = len(MAGIC)
    while raw[at]:
        table_length, key_length, value_length = _LENGTHS.unpack_from(raw, at)
        at += _LENGTHS.size
        key_at = at + table_length
        value_at = key_at + key_length
        end = value_at + value_length
        yield raw[at:key_at], raw[key_at:value_at], raw[value_at:end]
        at = end
