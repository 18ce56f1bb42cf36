"""One node of a memory pool as a transfer uses it: over shared memory (`Local`) or the network (`Remote`)."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvcm_platform.core.pool_layout import BadPlace, PoolRange
from kvcm_platform.pb import mempool_agent_pb2 as pb

from .pool_agents import Agent, AgentError, AgentSeen
from .pool_memory import BadSegment, NotReadable, SegmentMemory, payload_checksum

Block = tuple[PoolRange, bytes | memoryview]


class LocalSegments:
    """Segments of this host, mapped when first asked for. Safe to share among threads."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[AgentSeen, SegmentMemory | None]] = {}
        self._lock = threading.Lock()

    def memory(self, seen: AgentSeen) -> SegmentMemory | None:
        """The segment's memory, if its very file is here and this program may map it.

        Ids of segments are random: no other file says that it is this segment. An earlier one of the
        node is let go, and so is one whose file somebody removed under its agent, which serves it on.
        """
        with self._lock:
            known = self._nodes.get(seen.node_id)
            is_same = known is not None and (known[0].segment_id, known[0].path) == (
                seen.segment_id,
                seen.path,
            )
            if known is None or not is_same or (known[1] is not None and not os.path.exists(seen.path)):
                known = self._nodes[seen.node_id] = (seen, _mapped(seen))
            return known[1]

    def close(self) -> None:
        with self._lock:
            self._nodes.clear()


def _mapped(seen: AgentSeen) -> SegmentMemory | None:
    try:
        return SegmentMemory.map(seen.path, segment_id=seen.segment_id)
    except (OSError, BadSegment):
        return None


@dataclass(slots=True)
class Remote:
    """A node that is reached through its agent alone. Calls raise AgentError."""

    seen: AgentSeen
    agent: Agent
    seconds: float

    def is_current(self) -> bool:
        """An agent with other memory refuses calls that mean this one."""
        return True

    def write(self, blocks: Sequence[Block]) -> list[pb.RangeResult]:
        """One result a block."""
        fitting = _Fitting(self.seen, [entry for entry, _ in blocks])
        sent = [
            (entry, data, payload_checksum(data, entry.range_id))
            for (entry, data), fits in zip(blocks, fitting.fits, strict=True)
            if fits
        ]
        made = self.agent.write(self.seen.segment_id, sent, self.seconds) if sent else []
        return fitting.filled(made)

    def read(self, ranges: Sequence[PoolRange]) -> list[bytes | str]:
        """The bytes of each range, or why there are none."""
        found: list[bytes | str] = ["the agent sent nothing of it"] * len(ranges)
        fitting = _Fitting(self.seen, ranges)
        asked = [index for index, fits in enumerate(fitting.fits) if fits]
        coming: dict[int, _Coming] = {}
        for index, reason in fitting.reasons.items():
            found[index] = reason
        if not asked:
            return found
        for chunk in self.agent.read(self.seen.segment_id, [ranges[index] for index in asked], self.seconds):
            if chunk.index >= len(asked):
                raise AgentError(
                    self.seen.address, "INTERNAL", f"it sent block {chunk.index} of {len(asked)}"
                )
            index = asked[chunk.index]
            if chunk.result.outcome != pb.OUTCOME_OK:
                found[index] = chunk.result.reason
                coming.pop(index, None)
                continue
            block = coming.setdefault(index, _Coming(ranges[index], chunk.checksum, []))
            block.parts.append(chunk.data)
            whole = block.whole()
            if whole is not None:
                found[index] = whole
                del coming[index]
        for index in coming:
            found[index] = "the agent sent only a part of it"
        return found


@dataclass(slots=True)
class _Coming:
    """A block on its way."""

    range: PoolRange
    checksum: int
    parts: list[bytes]
    size: int = 0

    def whole(self) -> bytes | str | None:
        """The block, why it is none, or None while more is to come."""
        self.size += len(self.parts[-1])
        if self.size < self.range.size:
            return None
        data = b"".join(self.parts)
        if self.size > self.range.size or payload_checksum(data, self.range.range_id) != self.checksum:
            return "the bytes are not those that were written: the checksum differs"
        return data


class Local:
    """A node whose segment this program has mapped. Writes raise AgentError; reads make no call."""

    def __init__(self, seen: AgentSeen, agent: Agent, memory: SegmentMemory) -> None:
        self.seen = seen
        self.agent = agent
        self.memory = memory

    def is_current(self) -> bool:
        """Whether the node's segment is still this one: its file goes when there is another."""
        return os.path.exists(self.seen.path)

    def may_write(self) -> bool:
        """Whether this program may change the segment's file, and not only read it."""
        return os.access(self.seen.path, os.W_OK, effective_ids=True) or not self.is_current()

    def writable(self) -> SegmentMemory:
        """Raises AgentError where the file is gone, or may only be read."""
        try:
            return self.memory.for_writing(self.seen.path)
        except (OSError, BadSegment) as error:
            raise AgentError(self.seen.address, "FAILED_PRECONDITION", str(error)) from error

    def open(self, ranges: Sequence[PoolRange]) -> Sequence[pb.RangeResult]:
        return self.agent.open(self.seen.segment_id, ranges)

    def commit(self, ranges: Sequence[PoolRange], checksums: Sequence[int]) -> Sequence[pb.RangeResult]:
        return self.agent.commit(self.seen.segment_id, ranges, checksums)

    def write(self, blocks: Sequence[Block]) -> list[pb.RangeResult]:
        """One result a block."""
        fitting = _Fitting(self.seen, [entry for entry, _ in blocks])
        wanted = [block for block, fits in zip(blocks, fitting.fits, strict=True) if fits]
        if not wanted:
            return fitting.filled([])
        opened = list(self.open([entry for entry, _ in wanted]))
        copied: dict[int, int] = {}
        for at, ((entry, data), result) in enumerate(zip(wanted, opened, strict=True)):
            if result.outcome == pb.OUTCOME_OK:
                copied[at] = self._copy(entry, data)
            elif result.outcome == pb.OUTCOME_COMMITTED:
                opened[at] = _same_or(result, payload_checksum(data, entry.range_id))
        if copied:
            committed = self.commit([wanted[at][0] for at in copied], list(copied.values()))
            for at, result in zip(copied, committed, strict=True):
                opened[at] = result
        return fitting.filled(opened)

    def read(self, ranges: Sequence[PoolRange]) -> list[bytes | str]:
        """The bytes of each range, or why there are none."""
        found: list[bytes | str] = []
        for entry in ranges:
            try:
                place = self.memory.layout.place(entry.offset, entry.size)
                found.append(self.memory.read(place, entry.range_id))
            except (NotReadable, BadPlace) as error:
                found.append(str(error))
        return found

    def _copy(self, entry: PoolRange, data: bytes | memoryview) -> int:
        """Into the slot; the checksum of what was copied."""
        target = self.writable().payload(self.memory.layout.place(entry.offset, entry.size))
        # numpy lets other threads run meanwhile.
        np.copyto(np.frombuffer(target, np.uint8), np.frombuffer(data, np.uint8))
        return payload_checksum(data, entry.range_id)


def _same_or(result: pb.RangeResult, checksum: int) -> pb.RangeResult:
    """A range that was committed with these very bytes is written."""
    return pb.RangeResult() if result.checksum == checksum else result


class _Fitting:
    """Ranges that no slot of the segment can be: the agent would refuse all others of the call with them."""

    def __init__(self, seen: AgentSeen, ranges: Sequence[PoolRange]) -> None:
        self.reasons: dict[int, str] = {}
        for index, entry in enumerate(ranges):
            try:
                seen.layout.place(entry.offset, entry.size)
            except BadPlace as error:
                self.reasons[index] = str(error)
        self.fits = [index not in self.reasons for index in range(len(ranges))]

    def filled(self, results: Sequence[pb.RangeResult]) -> list[pb.RangeResult]:
        """Results of those that fit, with the reasons of the others in their places."""
        given = iter(results)
        return [
            next(given)
            if fits
            else pb.RangeResult(outcome=pb.OUTCOME_NOT_WRITTEN, reason=self.reasons[index])
            for index, fits in enumerate(self.fits)
        ]
