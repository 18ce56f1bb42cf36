"""What engines do with their places: the bytes of a block are its URI again and again."""

from __future__ import annotations

import os
from collections.abc import Iterable

from kvcm_platform.core.uris import parse_uri
from kvcm_platform.transfer.pool import PoolTransfer


def content(uri: str) -> bytes:
    size = parse_uri(uri).size
    return (uri.encode() * (size // len(uri) + 1))[:size]


class BlockBytes:
    """Slot files and, through `pool`, the memory of a pool's agents."""

    def __init__(self, pool: PoolTransfer | None = None) -> None:
        self._pool = pool

    def write(self, uris: Iterable[str]) -> None:
        """AssertionError where memory refuses its owner."""
        files, ranges = _by_place(uris)
        for uri in files:
            place = parse_uri(uri)
            os.makedirs(os.path.dirname(place.path), exist_ok=True)
            with open(os.open(place.path, os.O_CREAT | os.O_WRONLY), "wb") as file:
                file.seek(place.offset)
                file.write(content(uri))
        if self._pool is not None and ranges:
            results = self._pool.write_batch([(uri, content(uri)) for uri in ranges])
            assert not any(results), next(filter(None, results))

    def check(self, uris: Iterable[str]) -> None:
        """AssertionError for a block that has not its own bytes."""
        files, ranges = _by_place(uris)
        for uri in files:
            place = parse_uri(uri)
            with open(place.path, "rb") as file:
                file.seek(place.offset)
                assert file.read(place.size) == content(uri), uri
        if self._pool is not None and ranges:
            for uri, found in zip(ranges, self._pool.read_batch(ranges), strict=True):
                assert found == content(uri), (uri, found if not isinstance(found, bytes) else found[:200])


def _by_place(uris: Iterable[str]) -> tuple[list[str], list[str]]:
    files: list[str] = []
    ranges: list[str] = []
    for uri in uris:
        (ranges if uri.startswith("pace:") else files).append(uri)
    return files, ranges
