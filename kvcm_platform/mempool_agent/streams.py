"""Blocks that come and go over the network, in chunks.

Between two chunks the slot may get another owner; each chunk is copied, or sent, only while the range
still owns it. The event loop runs nothing else between the look and the copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc
import xxhash

from kvcm_platform.core.pool_layout import CHUNK_BYTES, MAX_RANGES, Place
from kvcm_platform.pb import mempool_agent_pb2 as pb
from kvcm_platform.transfer.pool_memory import NotReadable, SegmentMemory

MAX_STREAMS = 64
"""Write and Read calls at the same time."""
IDLE_SECONDS = 20.0
"""Longest wait for the next chunk, or for room to send one."""
STREAM_SECONDS = 300.0


class BadStream(ValueError):
    """Chunks that cannot be understood; begins with the field's name."""


class Streams:
    """How many there are, and how long they may take."""

    def __init__(self) -> None:
        self.open = 0

    @asynccontextmanager
    async def enter(self, context: Any) -> AsyncIterator[None]:
        """Ends the call with RESOURCE_EXHAUSTED if there are too many, DEADLINE_EXCEEDED if it goes on.

        Against a caller that stays and takes nothing only its own deadline helps, by which gRPC drops the
        call: an answer would wait behind what it does not take. So one without a near deadline is refused.
        """
        seconds = context.time_remaining()
        if seconds is None or seconds > STREAM_SECONDS:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, f"a deadline is needed, of {STREAM_SECONDS:g} s at most"
            )
        if self.open >= MAX_STREAMS:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"{self.open} streams are open, the most that may be"
            )
        self.open += 1
        try:
            async with asyncio.timeout(STREAM_SECONDS):
                yield
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the stream took too long, or stood still")
        finally:
            self.open -= 1

    async def each(self, chunks: AsyncIterator[pb.WriteChunk]) -> AsyncIterator[pb.WriteChunk]:
        """The chunks of a stream that does not stand still. Raises TimeoutError."""
        iterator = aiter(chunks)
        while True:
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    chunk = await anext(iterator)
            except StopAsyncIteration:
                return
            yield chunk

    async def send(self, context: Any, chunk: pb.ReadChunk) -> None:
        """Raises TimeoutError."""
        async with asyncio.timeout(IDLE_SECONDS):
            await context.write(chunk)


class Keeper(Protocol):
    """What an intake needs of the service."""

    def place(self, entry: pb.Range, field: str) -> tuple[Place, int]: ...
    def opened(self, place: Place, range_id: int) -> pb.RangeResult: ...
    def is_writing(self, place: Place, range_id: int) -> bool: ...
    def payload(self, place: Place) -> memoryview: ...
    def committed(self, place: Place, range_id: int, checksum: int) -> pb.RangeResult: ...


@dataclass(slots=True)
class _Block:
    """One block on its way in."""

    place: Place
    range_id: int
    checksum: int
    result: pb.RangeResult
    target: memoryview
    digest: Any
    filled: int = 0

    @property
    def is_wanted(self) -> bool:
        return self.result.outcome == pb.OUTCOME_OK


@dataclass(slots=True)
class Intake:
    """Puts the blocks of one Write into their slots. One result a block, when its last byte came."""

    keeper: Keeper
    results: list[pb.RangeResult] = field(default_factory=list)
    _block: _Block | None = None

    def take(self, chunk: pb.WriteChunk) -> None:
        """Raises BadStream, and what the keeper's `place` raises."""
        if chunk.HasField("range"):
            self._begin(chunk)
        block = self._block
        if block is None:
            raise BadStream("range: is missing in the first chunk of a block")
        end = block.filled + len(chunk.data)
        if end > block.place.size:
            raise BadStream(f"data: {end} bytes or more for a range of {block.place.size}")
        if block.is_wanted:
            if self.keeper.is_writing(block.place, block.range_id):
                block.target[block.filled : end] = chunk.data
                block.digest.update(chunk.data)
            else:
                block.result = self.keeper.opened(block.place, block.range_id)
        block.filled = end
        if end == block.place.size:
            self.results.append(self._finished(block))
            self._block = None

    def end(self) -> None:
        """Raises BadStream where the stream ended inside a block."""
        if self._block is not None:
            missing = self._block.place.size - self._block.filled
            raise BadStream(f"data: the stream ends {missing} bytes before its last block does")

    def _begin(self, chunk: pb.WriteChunk) -> None:
        if self._block is not None:
            raise BadStream("range: the block before is not at its end")
        if len(self.results) >= MAX_RANGES:
            raise BadStream(f"range: at most {MAX_RANGES} blocks a stream")
        place, range_id = self.keeper.place(chunk.range, "range")
        self._block = _Block(
            place,
            range_id,
            chunk.checksum,
            self.keeper.opened(place, range_id),
            self.keeper.payload(place),
            xxhash.xxh3_64(seed=range_id),
        )

    def _finished(self, block: _Block) -> pb.RangeResult:
        if not block.is_wanted:
            is_same = block.result.outcome == pb.OUTCOME_COMMITTED and block.result.checksum == block.checksum
            return pb.RangeResult() if is_same else block.result
        if block.digest.intdigest() != block.checksum:
            reason = "the bytes that came are not those that the checksum was made of"
            return pb.RangeResult(outcome=pb.OUTCOME_CORRUPT, reason=reason)
        return self.keeper.committed(block.place, block.range_id, block.checksum)


def blocks_of(memory: SegmentMemory, places: Sequence[tuple[Place, int]]) -> Iterator[pb.ReadChunk]:
    """The chunks of some ranges. The receiver compares the whole with the checksum."""
    for index, (place, range_id) in enumerate(places):
        try:
            slot = memory.readable(place, range_id)
            payload = memory.payload(place)
            for start in range(0, place.size, CHUNK_BYTES):
                if start and memory.look(place, range_id) != slot:
                    raise NotReadable("the slot got another owner while it was read")
                data = bytes(payload[start : start + CHUNK_BYTES])
                yield pb.ReadChunk(index=index, data=data, checksum=0 if start else slot.checksum)
        except NotReadable as error:
            lost = pb.RangeResult(outcome=pb.OUTCOME_NOT_WRITTEN, reason=str(error))
            yield pb.ReadChunk(index=index, result=lost)
