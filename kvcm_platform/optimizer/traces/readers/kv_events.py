"""Dumps of the KV events that vLLM and SGLang publish, as JSON lines or as a stream of msgpack.

A batch is `[time in seconds, events, data parallel rank]` or an object with `ts` and `events`; an event is
a map with `type`, or (older) an array that begins with it. Dumps of whole messages (topic, sequence number,
payload) are read too, and single events with a `ts` of their own.

An engine says what it stores, not what it finds. What it stores on the GPU it had to compute or to fetch: it
is what a request needed beyond the blocks that the engine held itself. So each BlockStored becomes a turn
over the chain from the first block to the last one stored, of which the blocks up to the parent were the
engine's own (`skip_n`): the trace is the demand that reaches a cache behind the engine. Blocks of answers are
among it, for the events do not tell them from blocks of prompts. Copies to other media, groups of layers
other than the first one with full attention, and removals make no demand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgpack

from kvcm_platform.optimizer.traces import members
from kvcm_platform.optimizer.traces.json_lines import json_values
from kvcm_platform.optimizer.traces.known_blocks import KnownBlocks
from kvcm_platform.optimizer.traces.source_lines import MAX_LINE_BYTES, Lines
from kvcm_platform.optimizer.traces.source_request import ONE_INSTANCE, ReadOptions, SourceRequest
from kvcm_platform.optimizer.traces.unpacked_stream import UNPACK_ERRORS

_STORED = ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium")
"""The members of a BlockStored in the array form, in their order."""
KINDS = ("BlockStored", "BlockRemoved", "AllBlocksCleared")
_GPU = (None, "", "GPU", "gpu")
_PARTLY = ("sliding", "mamba", "chunked", "linear")
"""In the kind of layers whose blocks are no whole prefix."""
_FIRST_MAP, _LAST_ARRAY = 0x80, 0x9F
_FEED_BYTES = 1 << 16


def is_msgpack(first_byte: int) -> bool:
    """Whether a dump that begins so is msgpack: a small map or array, or a longer array."""
    return _FIRST_MAP <= first_byte <= _LAST_ARRAY or first_byte in (0xDC, 0xDD, 0xDE, 0xDF)


def read_kv_events(lines: Lines, options: ReadOptions) -> Iterator[SourceRequest]:
    events = _Events(options)
    if is_msgpack((lines.stream.peek(1)[:1] or b"{")[0]):
        for number, value in _unpacked(lines, options):
            try:
                requests = events.read(number, value)
            except (ValueError, TypeError, OverflowError, RecursionError) as error:
                options.bad_lines.add(number, str(error))
                continue
            yield from _counted(requests, lines)
        return
    for _, requests in json_values(lines, options.bad_lines, events.read):
        yield from _counted(requests, lines)


def _counted(requests: list[SourceRequest], lines: Lines) -> Iterator[SourceRequest]:
    """Counts the blocks before those stored: the dump names only the parent, so they grow with its square."""
    for request in requests:
        lines.add_bytes(8 * request.skip_n)
        yield request


def _unpacked(lines: Lines, options: ReadOptions) -> Iterator[tuple[int, Any]]:
    """Objects of a msgpack stream with their numbers, counted from 1. One that is broken ends the stream."""
    unpacker = msgpack.Unpacker(raw=False, strict_map_key=False, max_buffer_size=MAX_LINE_BYTES)
    fed = 0
    while True:
        try:
            piece = lines.stream.read1(_FEED_BYTES)
        except UNPACK_ERRORS as error:
            lines.damage = f"the packed file is damaged or cut off: {error}"
            piece = b""
        if not piece:
            break
        lines.add_bytes(len(piece))
        fed += len(piece)
        try:
            unpacker.feed(piece)
            for value in unpacker:
                lines.number += 1
                yield lines.number, value
        except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
            # TypeError: a map with a key that Python has no map for.
            options.bad_lines.add(lines.number + 1, f"not msgpack from byte {unpacker.tell():,} on: {error}")
            return
    if unpacker.tell() < fed:
        lines.damage = lines.damage or "its last record is cut off"


class _Events:
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._blocks = KnownBlocks()
        self._group: Any = None

    def read(self, number: int, value: Any) -> list[SourceRequest]:
        """The turns of one batch or event. Raises ValueError."""
        at_us, events = _batch(value)
        # Everything is looked at before anything is remembered: a batch counts whole or not at all.
        known = [event for event in map(_event, events) if event is not None]
        stored = [_Stored(event) for event in known if event["type"] == "BlockStored" and self._counts(event)]
        for event in known:
            if event["type"] != "BlockStored":
                self._options.notes[f"{event['type']} event left out"] += 1
        return [self._turn(number, at_us, each) for each in stored]

    def _counts(self, event: dict[str, Any]) -> bool:
        if event.get("medium") not in _GPU:
            self._options.notes[f"BlockStored on {event['medium']!s:.40} left out"] += 1
            return False
        group = event.get("group_idx")
        kind = str(event.get("kv_cache_spec_kind")).lower()
        is_other = self._group is not None and group is not None and group != self._group
        if is_other or any(word in kind for word in _PARTLY):
            self._options.notes["BlockStored of another group of layers left out"] += 1
            return False
        if group is not None:
            self._group = group
        return True

    def _turn(self, number: int, at_us: int, stored: _Stored) -> SourceRequest:
        instance = self._options.instance(ONE_INSTANCE, block_tokens=stored.block_tokens)
        chain, is_known = self._blocks.extend(stored.parent, stored.keys)
        if not is_known:
            self._options.notes[
                "BlockStored below a block that the dump does not have: taken for a first one"
            ] += 1
        return SourceRequest(
            at_us,
            chain,
            input_tokens=len(chain) * instance.block_tokens,
            skip_n=max(0, len(chain) - len(stored.keys)),
            session=stored.session,
            number=number,
        )


class _Stored:
    """A BlockStored, checked. Raises ValueError."""

    def __init__(self, event: dict[str, Any]) -> None:
        self.keys = members.block_keys(event.get("block_hashes"), "block_hashes")
        if not self.keys:
            raise ValueError("block_hashes is empty")
        parent = event.get("parent_block_hash")
        self.parent = None if parent is None else members.block_key(parent, "parent_block_hash")
        self.block_tokens = max(1, members.whole(event, "block_size"))
        session = event.get("session_id")
        self.session = session if isinstance(session, str) else ""


def _batch(value: Any) -> tuple[int, list[Any]]:
    """(microseconds, events) of a batch in any of its forms."""
    if isinstance(value, list | tuple):
        if len(value) == 3 and isinstance(value[2], bytes):
            return _batch(msgpack.unpackb(value[2], raw=False, strict_map_key=False))
        if len(value) >= 2 and isinstance(value[1], list | tuple):
            return members.seconds_us(value[0], "ts"), list(value[1])
        raise ValueError("not a batch of events: [time, events, rank] is expected")
    if not isinstance(value, dict):
        raise ValueError("neither a batch of events nor an event")
    at_us = members.seconds_us(value.get("ts", value.get("timestamp")), "ts")
    events = value.get("events", [value] if "type" in value else None)
    if not isinstance(events, list):
        raise ValueError("events is not a list")
    return at_us, events


def _event(value: Any) -> dict[str, Any] | None:
    """An event as a map; None for kinds that are not known, which later engines may send."""
    if isinstance(value, list | tuple) and value:
        value = {"type": value[0], **dict(zip(_STORED, value[1:], strict=False))}
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise ValueError("an event has no type")
    return value if value["type"] in KINDS else None
