"""Bytes by group and storage number, out of what the shards pushed to their groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgpack

from kvcm_platform.core.migration import Usage

from . import keyspace
from .storage_refs import number_of

if TYPE_CHECKING:
    from .connection import Connection


async def live_usage(connection: Connection, groups: Iterable[int]) -> Usage:
    """What is written or served; pending deletions are on their way out and do not count."""
    found: dict[tuple[int, int], int] = defaultdict(int)
    for group in groups:
        for raw in await connection.call("HVALS", keyspace.group_vectors(keyspace.group(group))):
            for where, size in msgpack.unpackb(raw)[2].items():
                ref, _, state = where.partition(":")
                if state != "p":
                    found[group, number_of(int(ref))] += size
    return Usage(dict(found))
