"""The calls of watched instances, noted as they are answered and told to streams of Redis later on.

What a call costs here is one tuple in a list, and one look at `is_open` while nothing is watched; hashing,
sampling and sending are done off the path of calls, in slices between which others get their turn. The
list is bounded: what does not fit is left out, the newest first, and counted by the numbers that entries
carry (index/request_entries.py), so that readers know what they miss.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kvcm_platform.core import sampling
from kvcm_platform.core.masks import Mask
from kvcm_platform.core.registry import InstanceEntry

from . import keyspace, request_switches
from .connection import Commands
from .noted_calls import Noted, event_of, is_captured, is_sampled, sampled
from .request_entries import FINISH, QUERY, START, CapturedEvents, encode_captured, encode_sampled
from .request_switches import Switches

MOST_CALLS = 20_000
MOST_KEYS = 1 << 20
"""Calls and their keys that wait for the next flush."""
SLICE_KEYS = 1 << 14
"""Keys that are worked on at a time: about half a millisecond."""
MOST_ACCESSES = 8192
"""Sampled blocks of one entry; from there on the rate is halved until the switch says another one."""
SAMPLED_LENGTH = 1000
CAPTURED_LENGTH = 256
"""Entries of a stream: at most 80 and 64 MiB, if they are all as large as they can be."""
STREAM_MS = 3_600_000
"""A stream that nobody adds to goes after an hour."""


class RequestLog:
    """A RequestTap (core.ports). Of one event loop."""

    def __init__(self, process: str) -> None:
        self.is_open = False
        self._process = process
        self._samples: dict[int, int] = {}
        self._switches = Switches()
        self._captures: dict[str, list[str]] = {}
        self._noted: list[Noted] = []
        self._keys = 0
        self._calls_of: dict[int, int] = defaultdict(int)
        """Group number -> calls so far, those included that found no room."""
        self._events_of: dict[str, int] = defaultdict(int)
        """The same of events by capture."""

    async def refresh(self, commands: Commands) -> None:
        """Follows the switches; a few times a second is enough. Raises RedisError."""
        self.follow(await request_switches.read(commands), time.time() * 1000)

    def follow(self, switches: Switches, now_ms: float) -> None:
        for number, one in switches.samples.items():
            was = self._switches.samples.get(number)
            if number not in self._samples or was is None or was.k != one.k:
                self._samples[number] = one.k
        alive = {number for number, one in switches.samples.items() if one.until_ms > now_ms}
        self._samples = {number: k for number, k in self._samples.items() if number in alive}
        captures: dict[str, list[str]] = defaultdict(list)
        for capture_id, capture in switches.captures.items():
            if capture.until_ms > now_ms:
                for instance_id in capture.instances:
                    captures[instance_id].append(capture_id)
        self._captures = dict(captures)
        self._switches = switches
        self._calls_of = _kept(self._calls_of, self._samples)
        self._events_of = _kept(self._events_of, switches.captures)
        self.is_open = bool(self._samples or self._captures)

    def query(
        self,
        instance: InstanceEntry,
        query: int,
        keys: Sequence[int] | bytes,
        mask: Mask,
        hits: int,
        tokens: int = 0,
        sw_size: int = 0,
    ) -> None:
        if self._is_watched(instance):
            count = len(keys) >> 3 if isinstance(keys, bytes) else len(keys)
            at_us = time.time_ns() // 1000
            self._note(Noted(QUERY, instance, keys, mask, at_us, hits, query, "", tokens, sw_size), count)

    def start(
        self, instance: InstanceEntry, session_id: str, keys: Sequence[int], mask: Mask, tokens: int = 0
    ) -> None:
        if self._is_watched(instance):
            at_us = time.time_ns() // 1000
            self._note(Noted(START, instance, keys, mask, at_us, 0, 0, session_id, tokens), len(keys))

    def finish(self, instance: InstanceEntry, session_id: str, success: Mask) -> None:
        if instance.instance_id in self._captures:
            self._note(Noted(FINISH, instance, b"", success, time.time_ns() // 1000, 0, 0, session_id), 0)

    def _is_watched(self, instance: InstanceEntry) -> bool:
        return instance.group_number in self._samples or instance.instance_id in self._captures

    def _note(self, noted: Noted, keys: int) -> None:
        if len(self._noted) < MOST_CALLS and self._keys + keys <= MOST_KEYS:
            self._keys += keys
            self._noted.append(noted)
            return
        # Counted alone; the numbers of what follows tell.
        if is_sampled(noted):
            self._calls_of[noted.instance.group_number] += 1
        for capture_id in self._captures.get(noted.instance.instance_id, ()):
            if is_captured(noted):
                self._events_of[capture_id] += 1

    async def flush(self, commands: Commands) -> None:
        """Tells what was noted since the last flush. Raises RedisError; what it could not tell is lost."""
        noted, self._noted, self._keys = self._noted, [], 0
        for part in _slices(noted):
            await commands.pipeline(list(self._commands(part)))
            await asyncio.sleep(0)

    def _commands(self, noted: Sequence[Noted]) -> Iterator[tuple[Any, ...]]:
        by_group: dict[int, list[Noted]] = defaultdict(list)
        by_capture: dict[str, list[Noted]] = defaultdict(list)
        for one in noted:
            if one.instance.group_number in self._samples and is_sampled(one):
                by_group[one.instance.group_number].append(one)
        if self._captures:
            for one in filter(is_captured, noted):
                for capture_id in self._captures.get(one.instance.instance_id, ()):
                    by_capture[capture_id].append(one)
        for number, calls in by_group.items():
            yield from _added(keyspace.sampled_requests(number), SAMPLED_LENGTH, self._sampled(number, calls))
        for capture_id, calls in by_capture.items():
            key = keyspace.captured_requests(capture_id)
            yield from _added(key, CAPTURED_LENGTH, self._captured(capture_id, calls))

    def _sampled(self, number: int, noted: Sequence[Noted]) -> tuple[bytes, bytes]:
        self._calls_of[number] += len(noted)
        calls = sampled(noted, self._samples[number])
        while len(calls.ids) > MOST_ACCESSES and calls.k < sampling.MOST_BITS:
            self._samples[number] += 1
            calls = sampled(noted, self._samples[number])
        return encode_sampled(replace(calls, process=self._process, calls=self._calls_of[number]))

    def _captured(self, capture_id: str, noted: Sequence[Noted]) -> tuple[bytes, bytes]:
        first = self._events_of[capture_id]
        self._events_of[capture_id] += len(noted)
        keys = np.frombuffer(b"".join(one.raw for one in noted), dtype=np.int64)
        return encode_captured(CapturedEvents(self._process, first, [event_of(one) for one in noted], keys))


def _slices(noted: Sequence[Noted]) -> Iterator[Sequence[Noted]]:
    begin = keys = 0
    for at, one in enumerate(noted):
        keys += len(one.keys) >> 3 if isinstance(one.keys, bytes) else len(one.keys)
        if keys >= SLICE_KEYS:
            yield noted[begin : at + 1]
            begin, keys = at + 1, 0
    if begin < len(noted):
        yield noted[begin:]


def _added(key: str, length: int, entry: tuple[bytes, bytes]) -> Iterator[tuple[Any, ...]]:
    yield ("XADD", key, "MAXLEN", "~", length, "*", "h", entry[0], "d", entry[1])
    yield ("PEXPIRE", key, STREAM_MS)


def _kept(counts: dict[Any, int], wanted: Iterable[Any]) -> dict[Any, int]:
    """Only what is wanted, so that what was forgotten takes no memory."""
    names = set(wanted)
    return defaultdict(int, {name: count for name, count in counts.items() if name in names})
