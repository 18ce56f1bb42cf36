"""Bytes by group and storage number, out of what the shards pushed to their groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kvcm_platform.core.migration import Usage
from kvcm_platform.core.reclaim.marks import ReclaimUsage
from kvcm_platform.core.types import STORAGE_TYPE_BY_WIRE, StorageType

from . import keyspace
from .stats import parse_vector
from .storage_refs import number_of

if TYPE_CHECKING:
    from .connection import Connection

_PENDING = "p"
GROUPS_AT_ONCE = 64
"""Groups that are asked for in one turn."""


async def live_usage(connection: Connection, groups: Iterable[int]) -> Usage:
    """What is written or served; pending deletions are on their way out and do not count."""
    found: dict[tuple[int, int], int] = defaultdict(int)
    for group in groups:
        for raw in await connection.call("HVALS", keyspace.group_vectors(keyspace.group(group))):
            for (ref, state), (size, _) in parse_vector(raw).items():
                if state != _PENDING:
                    found[group, number_of(ref)] += size
    return Usage(dict(found))


async def read_usage(connection: Connection, groups: Iterable[int]) -> ReclaimUsage:
    """What marks are compared with (core/reclaim/marks.py), for these groups.

    As pushed: up to 100 ms behind, so whoever has just changed a shard flushes its pushes first.
    Raises IndexUnavailable.
    """
    bytes_of: dict[tuple[int, int], int] = defaultdict(int)
    reserved: dict[int, int] = {}
    reserved_by_type: dict[tuple[int, StorageType], int] = {}
    blocks_of: dict[tuple[int, int], int] = defaultdict(int)
    wanted = list(groups)
    for at in range(0, len(wanted), GROUPS_AT_ONCE):
        part = wanted[at : at + GROUPS_AT_ONCE]
        bases = [keyspace.group(group) for group in part]
        replies = await connection.pipeline(
            [("HGETALL", name) for base in bases for name in (base, keyspace.group_vectors(base))]
        )
        shards: dict[tuple[int, str], tuple[int, int]] = {}
        for group, totals, vectors in zip(part, replies[::2], replies[1::2], strict=True):
            for name, amount in zip(totals[::2], totals[1::2], strict=True):
                if name == b"r":
                    reserved[group] = int(amount)
                elif name.startswith(b"r:") and int(amount):
                    reserved_by_type[group, STORAGE_TYPE_BY_WIRE[int(name[2:])]] = int(amount)
            for name, raw in zip(vectors[::2], vectors[1::2], strict=True):
                live = pending = 0
                for (ref, state), (size, count) in parse_vector(raw).items():
                    if state == _PENDING:
                        pending += count
                    else:
                        live += count
                        bytes_of[group, number_of(ref)] += size
                shards[group, name.decode()] = (live, pending)
        for (group, instance), count in (await _keys(connection, shards)).items():
            blocks_of[group, instance] = count
    return ReclaimUsage(dict(bytes_of), reserved, reserved_by_type, dict(blocks_of))


async def _keys(
    connection: Connection, shards: dict[tuple[int, str], tuple[int, int]]
) -> dict[tuple[int, int], int]:
    """Live keys by (group, instance) number. `shards`: (group, `<instance>:<shard>`) -> (live, pending)
    locations.

    Usage counts locations, of which a block may have several; records count once, with what is pending.
    """
    split = [(group, *map(int, name.split(":"))) for group, name in shards]
    bases = [keyspace.blocks(keyspace.instance(number, shard)) for _, number, shard in split]
    records = await connection.pipeline([("HLEN", base) for base in bases]) if bases else []
    found: dict[tuple[int, int], int] = defaultdict(int)
    for (group, number, _), (live, pending), count in zip(split, shards.values(), records, strict=True):
        found[group, number] += min(live, max(0, count - pending))
    return dict(found)
