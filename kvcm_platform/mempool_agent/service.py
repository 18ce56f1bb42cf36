"""The agent's gRPC service: parses, asks the slots, answers. All of it runs in one event loop."""

from __future__ import annotations

import hmac
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, NoReturn

import grpc

from kvcm_platform.core.pool_layout import (
    MAX_RANGE_ID,
    MAX_RANGES,
    OWNER,
    VERSION,
    BadPlace,
    Place,
    SlotState,
)
from kvcm_platform.pb import mempool_agent_pb2 as pb
from kvcm_platform.pb.mempool_agent_pb2_grpc import MemPoolAgentServicer
from kvcm_platform.transfer.pool_memory import payload_checksum

from .segment import Segment
from .slots import Refusal, Refused, Slots, held_in
from .streams import BadStream, Intake, Streams, blocks_of

_LISTED_AT_ONCE = 4096
_SLABS_AT_ONCE = 256
"""Slabs that one List looks into, held or not: other calls wait meanwhile."""
_VERIFIED_BYTES = 256 << 20
"""Bytes that one Stat compares at most: they are read in the event loop."""

OUTCOMES = {
    Refusal.STALE: pb.OUTCOME_STALE,
    Refusal.RELEASED: pb.OUTCOME_STALE,
    Refusal.NOT_OPEN: pb.OUTCOME_NOT_WRITTEN,
    Refusal.COMMITTED: pb.OUTCOME_COMMITTED,
}


class Invalid(ValueError):
    """A call that cannot be understood; begins with the field's name."""


class AgentService(MemPoolAgentServicer):
    """One segment. `token` "" = everybody may call."""

    def __init__(self, segment: Segment, media_type: int, token: str) -> None:
        self._segment = segment
        self._media_type = media_type
        self._token = token
        self._started_at = int(time.time())
        self._memory = segment.memory
        self.slots = Slots(segment.memory)
        self._streams = Streams()
        self._figures = pb.Figures()

    async def Describe(self, request: pb.DescribeRequest, context: Any) -> pb.DescribeResponse:
        await self._admit(context)
        superblock = self._segment.superblock
        return pb.DescribeResponse(
            node_id=superblock.node_id,
            segment_id=superblock.segment_id,
            size_bytes=superblock.layout.size_bytes,
            path=str(self._segment.path),
            layout_version=VERSION,
            media_type=self._media_type,
            started_at=self._started_at,
            owner=self._memory.owner,
            figures=self.figures(),
        )

    def figures(self) -> pb.Figures:
        self._figures.held_blocks = self.slots.held_blocks
        self._figures.held_bytes = self.slots.held_bytes
        self._figures.open_streams = self._streams.open
        return self._figures

    async def Open(self, request: pb.OpenRequest, context: Any) -> pb.RangeResults:
        places = await self._places(request, context)
        results = [self._result(self.slots.open, *place) for place in places]
        return pb.RangeResults(results=results)

    async def Commit(self, request: pb.CommitRequest, context: Any) -> pb.RangeResults:
        places = await self._places(request, context)
        if len(request.checksums) != len(places):
            await _refuse(context, "checksums: one for each range is needed")
        results = [
            self._result(self.slots.commit, *place, checksum)
            for place, checksum in zip(places, request.checksums, strict=True)
        ]
        self._figures.committed_blocks += sum(result.outcome == pb.OUTCOME_OK for result in results)
        return pb.RangeResults(results=results)

    async def Release(self, request: pb.ReleaseRequest, context: Any) -> pb.RangeResults:
        places = await self._places(request, context)
        for place, range_id in places:
            self.slots.release(place, range_id)
        self._figures.released_blocks += len(places)
        return pb.RangeResults(results=[pb.RangeResult() for _ in places])

    async def Stat(self, request: pb.StatRequest, context: Any) -> pb.StatResponse:
        places = await self._places(request, context)
        if request.verify and sum(place.size for place, _ in places) > _VERIFIED_BYTES:
            await _refuse(context, f"verify: at most {_VERIFIED_BYTES} bytes of payload a call")
        return pb.StatResponse(stats=[self._stat(*place, request.verify) for place in places])

    async def List(self, request: pb.ListRequest, context: Any) -> pb.ListResponse:
        await self._admit(context, request.segment_id)
        answer, slabs = pb.ListResponse(), self._memory.layout.slabs
        slab = request.first_slab
        end = min(slabs, slab + _SLABS_AT_ONCE)
        while slab < end and len(answer.ranges) < _LISTED_AT_ONCE:
            for held in held_in(self._memory, slab):
                entry = pb.Range(offset=held.offset, size=held.size, range_id=held.range_id)
                answer.ranges.add(range=entry, committed_at=held.committed_at_us)
            slab += 1
        answer.next_slab = slab if slab < slabs else 0
        return answer

    async def Claim(self, request: pb.ClaimRequest, context: Any) -> pb.ClaimResponse:
        await self._admit(context, request.segment_id)
        if not 0 < len(request.owner.encode()) <= OWNER.size - 2:
            await _refuse(context, f"owner: 1 to {OWNER.size - 2} bytes")
        return pb.ClaimResponse(owner=self._memory.claim(request.owner))

    async def Write(self, chunks: AsyncIterator[pb.WriteChunk], context: Any) -> pb.RangeResults:
        await self._admit(context)
        intake = Intake(self)
        is_first = True
        async with self._streams.enter(context):
            try:
                async for chunk in self._streams.each(chunks):
                    if is_first or chunk.segment_id:
                        await self._check_segment(context, chunk.segment_id)
                    is_first = False
                    intake.take(chunk)
                    self._figures.received_bytes += len(chunk.data)
                intake.end()
            except (Invalid, BadStream) as error:
                await _refuse(context, str(error))
        return pb.RangeResults(results=intake.results)

    async def Read(self, request: pb.ReadRequest, context: Any) -> None:
        places = await self._places(request, context)
        async with self._streams.enter(context):
            for chunk in blocks_of(self._memory, places):
                await self._streams.send(context, chunk)
                self._figures.sent_bytes += len(chunk.data)

    def place(self, entry: pb.Range, field: str) -> tuple[Place, int]:
        """The slot and the id of a range. Raises Invalid."""
        if not 0 < entry.range_id <= MAX_RANGE_ID:
            raise Invalid(f"{field}.range_id: must be between 1 and {MAX_RANGE_ID}, not {entry.range_id}")
        try:
            return self._memory.layout.place(entry.offset, entry.size), entry.range_id
        except BadPlace as error:
            raise Invalid(f"{field}.{error.field}: {error}") from error

    def committed(self, place: Place, range_id: int, checksum: int) -> pb.RangeResult:
        """Commits what a stream brought."""
        result = self._result(self.slots.commit, place, range_id, checksum)
        self._figures.committed_blocks += result.outcome == pb.OUTCOME_OK
        return result

    def opened(self, place: Place, range_id: int) -> pb.RangeResult:
        return self._result(self.slots.open, place, range_id)

    def is_writing(self, place: Place, range_id: int) -> bool:
        return self.slots.is_writing(place, range_id)

    def payload(self, place: Place) -> memoryview:
        return self._memory.payload(place)

    def _result(self, change: Any, *args: Any) -> pb.RangeResult:
        try:
            change(*args)
        except Refused as refused:
            self._figures.refused_ranges += 1
            outcome = OUTCOMES[refused.refusal]
            return pb.RangeResult(outcome=outcome, reason=str(refused), checksum=refused.checksum)
        return pb.RangeResult()

    def _stat(self, place: Place, range_id: int, is_verified: bool) -> pb.RangeStat:
        slot = self._memory.look(place, range_id)
        if slot.state is not SlotState.COMMITTED:
            return pb.RangeStat(state=_STATES[slot.state])
        state = pb.RANGE_COMMITTED
        if is_verified and payload_checksum(self._memory.payload(place), range_id) != slot.checksum:
            state = pb.RANGE_CORRUPT
        return pb.RangeStat(state=state, checksum=slot.checksum, committed_at=slot.committed_at_us)

    async def _places(self, request: Any, context: Any) -> Sequence[tuple[Place, int]]:
        await self._admit(context, request.segment_id)
        if len(request.ranges) > MAX_RANGES:
            await _refuse(context, f"ranges: {len(request.ranges)}, at most {MAX_RANGES} a call")
        try:
            return [self.place(entry, f"ranges[{at}]") for at, entry in enumerate(request.ranges)]
        except Invalid as error:
            await _refuse(context, str(error))

    async def _admit(self, context: Any, segment_id: str | None = None) -> None:
        """Ends the call of who has no token, or means another segment."""
        if self._token:
            given = dict(context.invocation_metadata() or ()).get("authorization", "")
            if not hmac.compare_digest(str(given).encode(), f"Bearer {self._token}".encode()):
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the agent wants its token")
        if segment_id is not None:
            await self._check_segment(context, segment_id)

    async def _check_segment(self, context: Any, segment_id: str) -> None:
        mine = self._segment.superblock.segment_id
        if segment_id != mine:
            said = f"segment_id: {segment_id!r} is not the segment of this agent, {mine}"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, said)


_STATES = {
    SlotState.EMPTY: pb.RANGE_ABSENT,
    SlotState.WRITING: pb.RANGE_WRITING,
    SlotState.RELEASED: pb.RANGE_RELEASED,
}


async def _refuse(context: Any, reason: str) -> NoReturn:
    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, reason)
    raise AssertionError("abort raises")
