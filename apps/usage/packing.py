"""Points as they are kept in rows: those of seconds packed, calls by bucket as text. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

import msgpack

from kvcm_platform.core.points import LEVEL_NAMES, Amounts, Levels, Point
from kvcm_platform.index.facts import BUCKETS_US


def pack(points: Sequence[Point], begin: int) -> bytes:
    """The points of one chunk, whose times are told from `begin`."""
    return bytes(msgpack.packb([_row(point, begin) for point in points]))


def _row(point: Point, begin: int) -> list[object]:
    row: list[object] = [point.at - begin, *astuple(point.levels)]
    if point.amounts:
        row += [*point.amounts.counts(), point.amounts.read_us, point.amounts.write_us]
    return row


def unpack(data: bytes, begin: int) -> list[Point]:
    count = len(LEVEL_NAMES) + 1
    found = []
    for row in msgpack.unpackb(data):
        levels = Levels(*row[1:count])
        amounts = Amounts(*row[count:]) if len(row) > count else Amounts()
        found.append(Point(begin + row[0], levels, levels.used_bytes, amounts))
    return found


def buckets_text(buckets: Sequence[int]) -> str:
    """Counts by bucket as they are kept in a row."""
    return ",".join(map(str, buckets))


def buckets_of(text: str) -> list[int]:
    return [int(part) for part in text.split(",")] if text else []


def is_bucket_count(buckets: Sequence[int]) -> bool:
    """Whether this many buckets are known; a process of another version may have others."""
    return len(buckets) <= len(BUCKETS_US) + 1
