"""A capture on disk: a line on what was captured, then lines of the publisher's event log (WIRE.md 6.5).

The file grows by one zstd frame an append, and its size is noted elsewhere after each: whatever lies behind
that size was written by somebody who died, and goes before the next append. So a file is whole at every
noted size, whoever is killed. Lines are in order of time within an append, and between appends as far as
processes tell in time: readers sort.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
import redis
import zstandard

from kvcm_platform.core.types import QueryType

from . import keyspace, streams
from .request_entries import FINISH, QUERY, START, CapturedEvents, decode_captured

CAPTURE_VERSION = 1
COMPONENT = "cache_manager"
ENTRIES_A_READ = 32
MOST_PROCESSES = 1024
_LEVEL = 3
_QUERY_NAMES = {
    QueryType.BATCH_GET: "batch_get",
    QueryType.PREFIX_MATCH: "prefix_match",
    QueryType.REVERSE_ROLL_SW_MATCH: "reverse_roll_sw_match",
    QueryType.PREFIX_MATCH_WITH_MAMBA: "prefix_match_with_mamba",
}
_TYPES = {QUERY: "GetCacheLocation", START: "StartWriteCache", FINISH: "FinishWriteCache"}


class BusyFile(Exception):
    """Somebody else appends to the file now."""


class DamagedFile(Exception):
    """The file is shorter than what was noted: its end is lost."""


@dataclass(frozen=True, slots=True)
class CapturedInstance:
    """`block_bytes` = all specs of a block."""

    instance_id: str
    block_tokens: int
    block_bytes: int
    group: str


@dataclass(frozen=True, slots=True)
class CaptureProgress:
    """How far a capture has come; what `take_events` gives is to be noted together with the file's size."""

    position: str = streams.START
    events: int = 0
    lost_events: int = 0
    """Noted by processes that found no room for them, or gone from the stream before they were read."""
    next_of: Mapping[str, int] = field(default_factory=dict)
    """Process -> number of the event that comes next."""


def header_line(instances: Sequence[CapturedInstance]) -> bytes:
    members = [asdict(one) for one in instances]
    return orjson.dumps({"kvcm_capture": CAPTURE_VERSION, "instances": members}) + b"\n"


def take_events(
    client: redis.Redis, capture_id: str, progress: CaptureProgress
) -> tuple[CaptureProgress, list[bytes]]:
    """The next lines of a capture's stream in order of time, none when all was read. Raises RedisError."""
    entries = client.xrange(
        keyspace.captured_requests(capture_id), min=f"({progress.position}", count=ENTRIES_A_READ
    )
    position, events, lost = progress.position, progress.events, progress.lost_events
    next_of = dict(progress.next_of)
    lines: list[tuple[int, bytes]] = []
    for raw_id, fields in entries:
        position = raw_id.decode()
        try:
            captured = decode_captured(fields)
        except (KeyError, ValueError):
            continue  # its events are missed by the next entry of the process
        lost += max(0, captured.first - next_of.get(captured.process, 0))
        next_of[captured.process] = captured.first + len(captured.events)
        events += len(captured.events)
        lines += lines_of(captured)
    while len(next_of) > MOST_PROCESSES:
        del next_of[next(iter(next_of))]
    lines.sort(key=lambda line: line[0])
    return CaptureProgress(position, events, lost, next_of), [text for _, text in lines]


def lines_of(captured: CapturedEvents) -> Iterator[tuple[int, bytes]]:
    """(unix us, line) of each event."""
    at = 0
    for number, event in enumerate(captured.events, captured.first):
        keys = captured.keys[at : at + event["n"]]
        at += event["n"]
        text = f"{captured.process}:{number}".encode()
        line = {
            "id": hashlib.blake2b(text, digest_size=16).hexdigest(),
            "source": event["i"],
            "component": COMPONENT,
            "type": _TYPES[event["t"]],
            "trigger_time_us": event["us"],
            **_members(event, keys),
        }
        yield event["us"], orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n"


def _members(event: Mapping[str, Any], keys: Any) -> dict[str, Any]:
    tokens = {"input_tokens": event["k"]} if "k" in event else {}
    mask = 0 if event["m"] is None else event["m"]
    if event["t"] == QUERY:
        return {
            "query_type": _QUERY_NAMES.get(event["q"], "unspecified"),
            "keys": keys,
            "tokens": [],
            "block_mask": mask,
            "sw_size": event.get("w", 0),
            "location_spec_names": [],
            "hit_blocks": event["h"],
            **tokens,
        }
    if event["t"] == START:
        return {"write_session_id": event["s"], "keys": keys, "tokens": [], "block_mask": mask, **tokens}
    return {"write_session_id": event["s"], "success_block": mask}


@contextmanager
def held(path: Path) -> Iterator[int]:
    """The open file, for one at a time. Raises BusyFile, and OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BusyFile(str(path)) from error
        yield descriptor
    finally:
        os.close(descriptor)


def append(descriptor: int, size: int, lines: Sequence[bytes]) -> int:
    """Adds lines behind the noted size; the new one, to be noted once this returns: all is on the disk then.

    Raises DamagedFile, and OSError, after which the noted size still counts.
    """
    if os.fstat(descriptor).st_size < size:
        raise DamagedFile(f"{os.fstat(descriptor).st_size} bytes are left of {size}")
    frame = zstandard.ZstdCompressor(level=_LEVEL).compress(b"".join(lines))
    os.ftruncate(descriptor, size)
    os.lseek(descriptor, size, os.SEEK_SET)
    view = memoryview(frame)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)
    return size + len(frame)
