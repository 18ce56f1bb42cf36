"""Goes through large hashes piece by piece, so that nobody waits for the whole of one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .redis_index import RedisIndex

SCAN_COUNT = 512


async def fields_of(index: RedisIndex, name: str) -> AsyncGenerator[tuple[bytes, bytes], None]:
    """(field, value) pairs of a hash: those that are there all the time at least once, some twice while
    the hash is resized. Raises redis.RedisError.
    """
    cursor = b"0"
    while True:
        cursor, flat = await index.connection.call("HSCAN", name, cursor, "COUNT", SCAN_COUNT)
        for pair in zip(flat[::2], flat[1::2], strict=True):
            yield pair
        if cursor == b"0":
            return
