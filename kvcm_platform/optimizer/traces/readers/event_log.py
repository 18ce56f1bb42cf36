"""KVCM's publisher event log (WIRE.md 6.5, F 7.2), and our own capture of live traffic.

A lookup counts when it was asked; a write takes effect when it was finished, one that never was counts 100 ms
after its start. As events these are READ and WRITE; as turns a lookup and the write that follows it are one
request at the time of the lookup, which uses the chain that was written.

A write follows the latest lookup of its instance, not later than itself, whose keys without the last one the
written keys begin with (the last block of a prompt changes when the answer fills it). Lookups that nothing
follows are turns over their own chain, writes without a lookup are turns that ask for nothing.

Only prefix matches are used: other lookups, and events that are no requests, are left out with a note.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kvcm_platform.optimizer.trace import Event, TraceInstance
from kvcm_platform.optimizer.traces import members
from kvcm_platform.optimizer.traces.chained_keys import chain_tokens
from kvcm_platform.optimizer.traces.json_lines import json_objects
from kvcm_platform.optimizer.traces.lookups import Lookups
from kvcm_platform.optimizer.traces.source_lines import Lines
from kvcm_platform.optimizer.traces.source_request import NOT_BROUGHT, ReadOptions, SourceRequest

UNFINISHED_US = 100_000
LONGEST_WRITE_US = 1_800_000_000
"""The longest timeout of a write session: one older than that will not be finished any more."""
MAX_PENDING = 1 << 16
LATEST_US = 5_000_000
"""Metadata processes tell a capture five times a second, and now and then one is slow."""
MAX_WAITING_KEYS = 1 << 22
CAPTURE_MEMBER = "kvcm_capture"
CAPTURE_VERSION = 1


@dataclass(slots=True)
class _Write:
    number: int
    start_us: int
    instance: str
    keys: array[int]
    unwritten: list[int]
    """Positions of the keys that were not there yet."""


def read_publisher_log(lines: Lines, options: ReadOptions) -> Iterator[SourceRequest]:
    """Reads and writes, or turns where `options` ask for them."""
    yield from _read(lines, options, _EventLog(options, as_turns=bool(options.as_turns)))


def read_capture(lines: Lines, options: ReadOptions) -> Iterator[SourceRequest]:
    """A header line, then a publisher log with `input_tokens` where the caller said the tokens of the prompt.

    Another header in the middle, of a capture that was continued, is read too.
    """
    as_turns = options.as_turns is None or options.as_turns
    yield from _read(lines, options, _EventLog(options, as_turns=as_turns))


def _read(lines: Lines, options: ReadOptions, log: _EventLog) -> Iterator[SourceRequest]:
    def parse(_number: int, record: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
        if CAPTURE_MEMBER in record:
            _read_capture_header(record, options)
            return None
        members.text(record, "type")
        return members.whole(record, "trigger_time_us"), record

    for number, record in in_time_order(json_objects(lines, options.bad_lines, parse)):
        try:
            requests = log.read(number, record)
        except (ValueError, TypeError, OverflowError) as error:
            options.bad_lines.add(number, str(error))
            continue
        yield from requests
    yield from log.end()


def in_time_order(
    events: Iterable[tuple[int, tuple[int, dict[str, Any]] | None]],
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Puts events right that came late: several processes write one log, each a while after the fact.

    What comes more than LATEST_US after something newer stays late, as does what finds no room.
    """
    waiting: list[tuple[int, int, dict[str, Any]]] = []
    newest = keys = 0
    for number, event in events:
        if event is None:
            continue
        at_us, record = event
        newest = max(newest, at_us)
        keys += _size(record)
        heapq.heappush(waiting, (at_us, number, record))
        while waiting and (
            waiting[0][0] < newest - LATEST_US or len(waiting) > MAX_PENDING or keys > MAX_WAITING_KEYS
        ):
            _, first, record = heapq.heappop(waiting)
            keys -= _size(record)
            yield first, record
    while waiting:
        _, first, record = heapq.heappop(waiting)
        yield first, record


def _size(record: dict[str, Any]) -> int:
    return sum(len(record[name]) for name in ("keys", "tokens") if isinstance(record.get(name), list))


def _read_capture_header(record: dict[str, Any], options: ReadOptions) -> None:
    if record[CAPTURE_MEMBER] != CAPTURE_VERSION:
        raise ValueError(f"a capture of version {record[CAPTURE_MEMBER]}, not {CAPTURE_VERSION}")
    instances = record.get("instances")
    if not isinstance(instances, list) or not all(isinstance(entry, dict) for entry in instances):
        raise ValueError("instances is not a list of objects")
    for entry in instances:
        name = members.text(entry, "instance_id")
        options.instance(
            name,
            block_tokens=max(1, members.whole(entry, "block_tokens")),
            block_bytes=members.whole(entry, "block_bytes", 0),
            group=members.text(entry, "group", ""),
        )


class _EventLog:
    """What a log's lines, in their order, make of each other. Open writes and lookups are bounded."""

    def __init__(self, options: ReadOptions, *, as_turns: bool) -> None:
        self._options = options
        self._writes: dict[tuple[str, str], _Write] = {}
        self._lookups = Lookups(MAX_PENDING, LONGEST_WRITE_US) if as_turns else None

    def read(self, number: int, record: dict[str, Any]) -> list[SourceRequest]:
        """The requests that this line makes or completes. Raises ValueError."""
        kind = members.text(record, "type")
        if kind == "GetCacheLocation":
            return self._get(number, record)
        if kind == "StartWriteCache":
            return self._start(number, record)
        if kind == "FinishWriteCache":
            return self._finish(number, record)
        self._options.notes[f"event {kind:.40} left out"] += 1
        return []

    def end(self) -> list[SourceRequest]:
        """What is still open when the log ends."""
        if self._lookups is not None:
            return self._lookups.rest()
        left = [self._unfinished(write) for write in self._writes.values()]
        self._writes.clear()
        return left

    def _get(self, number: int, record: dict[str, Any]) -> list[SourceRequest]:
        if note := members.left_out_lookup(record):
            self._options.notes[note] += 1
            return []
        at_us = members.whole(record, "trigger_time_us")
        instance, keys, tokens = self._chain(record)
        request = SourceRequest(
            at_us,
            keys,
            instance.instance_id,
            Event.READ if self._lookups is None else Event.TURN,
            input_tokens=members.whole(record, "input_tokens", tokens),
            skip_n=members.skipped(record.get("block_mask"), len(keys)),
            number=number,
        )
        if not keys:
            self._options.notes["lookup without a full block left out"] += 1
            return []
        return [request] if self._lookups is None else self._lookups.add(request)

    def _start(self, number: int, record: dict[str, Any]) -> list[SourceRequest]:
        at_us = members.whole(record, "trigger_time_us")
        instance, keys, _ = self._chain(record)
        if not keys:
            return []
        present = members.mask_flags(record.get("block_mask"), len(keys))
        if self._lookups is not None:
            return [self._turn(number, at_us, instance, keys)]
        session = members.text(record, "write_session_id")
        unwritten = [position for position, is_there in enumerate(present) if not is_there]
        write = _Write(number, at_us, instance.instance_id, keys, unwritten)
        completed = self._too_old(at_us)
        replaced = self._writes.pop((write.instance, session), None)
        if replaced is not None:
            completed.append(self._unfinished(replaced))
        self._writes[write.instance, session] = write
        return completed

    def _finish(self, number: int, record: dict[str, Any]) -> list[SourceRequest]:
        at_us = members.whole(record, "trigger_time_us")
        name = members.text(record, "source")
        session = members.text(record, "write_session_id")
        if self._lookups is not None:
            return []  # A turn brings its blocks at once.
        write = self._writes.get((name, session))
        if write is None:
            self._options.notes["finished write without its start left out"] += 1
            return []
        keys = self._written(write, record.get("success_block"))
        del self._writes[name, session]
        if not keys:
            self._options.notes["write of which no prefix succeeded left out"] += 1
            return []
        return [SourceRequest(at_us, keys, name, Event.WRITE, read_n=0, number=number)]

    def _written(self, write: _Write, success: Any) -> array[int]:
        """The chain up to the first block that failed: what is behind it no prefix match can reach."""
        if success is None:
            return write.keys
        positions = write.unwritten
        if isinstance(success, list) and len(success) == len(write.keys):
            positions = list(range(len(write.keys)))
        flags = members.mask_flags(success, len(positions), "success_block")
        failed = [position for position, is_written in zip(positions, flags, strict=True) if not is_written]
        return write.keys[: failed[0]] if failed else write.keys

    def _turn(self, number: int, at_us: int, instance: TraceInstance, keys: array[int]) -> SourceRequest:
        lookups = self._lookups
        found = None if lookups is None else lookups.take(instance.instance_id, keys, at_us)
        if found is None:
            return SourceRequest(at_us, keys, instance.instance_id, read_n=0, number=number)
        asked = found.keys
        found.read_n = len(asked) if keys[: len(asked)] == asked else len(asked) - 1
        if found.read_n < len(asked):
            self._options.notes[NOT_BROUGHT] += 1
        found.keys = keys
        found.skip_n = min(found.skip_n, found.read_n)
        found.output_tokens = max(0, len(keys) - len(asked)) * instance.block_tokens
        return found

    def _unfinished(self, write: _Write) -> SourceRequest:
        at_us = write.start_us + UNFINISHED_US
        return SourceRequest(at_us, write.keys, write.instance, Event.WRITE, read_n=0, number=write.number)

    def _too_old(self, now_us: int) -> list[SourceRequest]:
        left: list[SourceRequest] = []
        while self._writes:
            key, oldest = next(iter(self._writes.items()))
            if len(self._writes) < MAX_PENDING and now_us - oldest.start_us <= LONGEST_WRITE_US:
                break
            del self._writes[key]
            left.append(self._unfinished(oldest))
        return left

    def _chain(self, record: dict[str, Any]) -> tuple[TraceInstance, array[int], int]:
        """Instance, keys and tokens of the prompt; keys that are not given are those of the tokens."""
        name = members.text(record, "source")
        keys = members.block_keys(record.get("keys") or [])
        tokens = members.token_ids(record.get("tokens") or [])
        guess = members.block_tokens_of(len(tokens), len(keys)) if keys and tokens else None
        instance = self._options.instance(name, block_tokens=guess)
        if not keys and tokens:
            keys = chain_tokens(tokens, instance.block_tokens)
        return instance, keys, len(tokens) or len(keys) * instance.block_tokens
