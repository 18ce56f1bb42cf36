"""Calls that cannot be understood, and what callers may not do."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from kvcm_platform.core.pool_layout import SegmentLayout
from kvcm_platform.mempool_agent import service
from kvcm_platform.mempool_agent.segment import Segment
from kvcm_platform.pb import mempool_agent_pb2 as pb
from kvcm_platform.pb.mempool_agent_pb2_grpc import MemPoolAgentStub
from kvcm_platform.transfer.pool_memory import SegmentMemory, Superblock, payload_checksum
from tests.support.eventually import eventually
from tests.support.mempool import AgentHost, RunningAgent, agent_host

DATA = bytes(range(256)) * 16


@pytest.fixture(scope="module")
def agent() -> Iterator[RunningAgent]:
    with agent_host() as host:
        yield host.start()


@pytest.fixture
def stub(agent: RunningAgent) -> Iterator[Any]:
    with grpc.insecure_channel(agent.address) as channel:
        yield MemPoolAgentStub(channel)


def status_of(call: Any, request: Any) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as error:
        answer = call(request, timeout=10)
        list(answer) if hasattr(answer, "__iter__") else answer
    return error.value.code().name, error.value.details()


def entry(offset: int = 0, size: int = 4096, range_id: int = 1) -> pb.Range:
    return pb.Range(offset=offset, size=size, range_id=range_id)


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (entry(offset=100), "ranges[1].offset"),
        (entry(offset=1 << 40), "ranges[1].offset"),
        (entry(offset=32 << 20), "ranges[1].offset"),
        (entry(size=0), "ranges[1].size"),
        (entry(size=1 << 40), "ranges[1].size"),
        (entry(size=64 << 20), "ranges[1].offset"),
        (entry(range_id=0), "ranges[1].range_id"),
        (entry(range_id=1 << 53), "ranges[1].range_id"),
    ],
)
@pytest.mark.parametrize("rpc", ["Open", "Commit", "Release", "Stat", "Read"])
def test_ranges_that_cannot_be(stub: Any, agent: RunningAgent, rpc: str, bad: pb.Range, field: str) -> None:
    request = getattr(pb, f"{rpc}Request")(segment_id=agent.segment_id, ranges=[entry(), bad])
    status, said = status_of(getattr(stub, rpc), request)
    assert (status, said.partition(":")[0]) == ("INVALID_ARGUMENT", field)


@pytest.mark.parametrize("rpc", ["Open", "Commit", "Release", "Stat", "Read", "List", "Claim"])
@pytest.mark.parametrize("segment_id", ["", "0" * 16])
def test_another_segment_is_refused(stub: Any, rpc: str, segment_id: str) -> None:
    status, said = status_of(getattr(stub, rpc), getattr(pb, f"{rpc}Request")(segment_id=segment_id))
    assert status == "FAILED_PRECONDITION"
    assert said.startswith("segment_id: ")


def test_too_many_ranges(stub: Any, agent: RunningAgent) -> None:
    request = pb.StatRequest(segment_id=agent.segment_id, ranges=[entry()] * 4097)
    assert status_of(stub.Stat, request)[0] == "INVALID_ARGUMENT"
    request = pb.StatRequest(segment_id=agent.segment_id, ranges=[entry()] * 4096)
    assert len(stub.Stat(request, timeout=10).stats) == 4096


def test_a_checksum_for_each_range(stub: Any, agent: RunningAgent) -> None:
    request = pb.CommitRequest(segment_id=agent.segment_id, ranges=[entry()], checksums=[])
    assert status_of(stub.Commit, request) == ("INVALID_ARGUMENT", "checksums: one for each range is needed")


def chunk(agent: RunningAgent, **members: Any) -> pb.WriteChunk:
    return pb.WriteChunk(segment_id=agent.segment_id, **members)


@pytest.mark.parametrize(
    ("chunks", "said"),
    [
        ([{"data": b"x"}], "range: is missing"),
        ([{"range": entry(), "data": bytes(4097)}], "data: 4097 bytes or more"),
        ([{"range": entry(), "data": b"x"}], "data: the stream ends 4095 bytes before"),
        ([{"range": entry(), "data": b"x"}, {"range": entry(8192)}], "range: the block before"),
        ([{"range": entry(offset=7)}], "range.offset: no slot"),
    ],
)
def test_streams_that_cannot_be(
    stub: Any, agent: RunningAgent, chunks: list[dict[str, Any]], said: str
) -> None:
    status, found = status_of(stub.Write, iter([chunk(agent, **members) for members in chunks]))
    assert status == "INVALID_ARGUMENT"
    assert found.startswith(said)


def test_chunks_that_are_too_large(stub: Any, agent: RunningAgent) -> None:
    large = chunk(agent, range=entry(size=8 << 20), data=bytes(3 << 20))
    assert status_of(stub.Write, iter([large]))[0] == "RESOURCE_EXHAUSTED"


def write(stub: Any, agent: RunningAgent, one: pb.Range, data: bytes, checksum: int) -> pb.RangeResult:
    chunks = iter([chunk(agent, range=one, checksum=checksum, data=data)])
    return stub.Write(chunks, timeout=10).results[0]


def test_bytes_that_changed_on_the_way(stub: Any, agent: RunningAgent) -> None:
    one = entry(range_id=100)
    result = write(stub, agent, one, DATA, payload_checksum(DATA, 100) ^ 1)
    assert result.outcome == pb.OUTCOME_CORRUPT
    request = pb.StatRequest(segment_id=agent.segment_id, ranges=[one])
    assert stub.Stat(request, timeout=10).stats[0].state == pb.RANGE_WRITING
    assert write(stub, agent, one, DATA, payload_checksum(DATA, 100)).outcome == pb.OUTCOME_OK


def test_a_writer_that_lost_its_range_on_the_way(stub: Any, agent: RunningAgent) -> None:
    """Released between two chunks, and the slot given away: not a byte more is taken, nothing committed."""
    one, later = entry(offset=8192, range_id=200), entry(offset=8192, range_id=201)
    other = DATA[::-1]

    def chunks() -> Iterator[pb.WriteChunk]:
        yield chunk(agent, range=one, checksum=payload_checksum(DATA, 200), data=DATA[:100])
        stat = pb.StatRequest(segment_id=agent.segment_id, ranges=[one])
        while stub.Stat(stat, timeout=10).stats[0].state != pb.RANGE_WRITING:
            pass
        stub.Release(pb.ReleaseRequest(segment_id=agent.segment_id, ranges=[one]), timeout=10)
        assert write(stub, agent, later, other, payload_checksum(other, 201)).outcome == pb.OUTCOME_OK
        yield pb.WriteChunk(data=DATA[100:])

    result = stub.Write(chunks(), timeout=10).results[0]
    assert (result.outcome, result.reason) == (pb.OUTCOME_STALE, "the slot has a later owner")
    request = pb.StatRequest(segment_id=agent.segment_id, ranges=[later], verify=True)
    assert stub.Stat(request, timeout=10).stats[0].state == pb.RANGE_COMMITTED


def test_what_was_written_again(stub: Any, agent: RunningAgent) -> None:
    one = entry(offset=12288, range_id=300)
    assert write(stub, agent, one, DATA, payload_checksum(DATA, 300)).outcome == pb.OUTCOME_OK
    assert write(stub, agent, one, DATA, payload_checksum(DATA, 300)).outcome == pb.OUTCOME_OK
    other = DATA[::-1]
    assert write(stub, agent, one, other, payload_checksum(other, 300)).outcome == pb.OUTCOME_COMMITTED
    chunks = list(stub.Read(pb.ReadRequest(segment_id=agent.segment_id, ranges=[one]), timeout=10))
    assert b"".join(chunk.data for chunk in chunks) == DATA


def test_stat_compares_bytes(stub: Any, agent: RunningAgent) -> None:
    one = entry(offset=16384, range_id=400)
    write(stub, agent, one, DATA, payload_checksum(DATA, 400))

    def state(verify: bool) -> int:
        request = pb.StatRequest(segment_id=agent.segment_id, ranges=[one], verify=verify)
        return stub.Stat(request, timeout=10).stats[0].state

    assert state(True) == pb.RANGE_COMMITTED
    with agent.path.open("r+b") as file:
        at = agent.path.stat().st_size - agent.size_bytes + 16384
        file.seek(at)
        assert file.read(2) == DATA[:2]
        file.seek(at)
        file.write(b"!")
    assert state(False) == pb.RANGE_COMMITTED
    assert state(True) == pb.RANGE_CORRUPT
    huge = [entry(size=16 << 20, range_id=1)] * 17
    request = pb.StatRequest(segment_id=agent.segment_id, ranges=huge, verify=True)
    assert status_of(stub.Stat, request)[0] == "INVALID_ARGUMENT"


def test_too_many_streams(stub: Any, host: AgentHost) -> None:
    agent = host.start("s")
    with grpc.insecure_channel(agent.address) as channel:
        stub = MemPoolAgentStub(channel)
        stand = [_Standing(chunk(agent, range=entry(range_id=5), data=b"x")) for _ in range(64)]
        calls = [stub.Write.future(one, timeout=60) for one in stand]
        while stub.Describe(pb.DescribeRequest(), timeout=10).figures.open_streams < 64:
            pass
        assert status_of(stub.Write, iter([chunk(agent)]))[0] == "RESOURCE_EXHAUSTED"
        for call in calls:
            call.cancel()
        while stub.Describe(pb.DescribeRequest(), timeout=10).figures.open_streams:
            pass


class _Standing:
    """A stream that sends one chunk and then nothing."""

    def __init__(self, first: pb.WriteChunk) -> None:
        self._chunks = [first]

    def __iter__(self) -> _Standing:
        return self

    def __next__(self) -> pb.WriteChunk:
        import threading

        if self._chunks:
            return self._chunks.pop()
        threading.Event().wait(30)
        raise StopIteration


def test_memory_is_claimed_once(stub: Any, host: AgentHost) -> None:
    agent = host.start("c")

    def claim(owner: str) -> str:
        with grpc.insecure_channel(agent.address) as channel:
            request = pb.ClaimRequest(segment_id=agent.segment_id, owner=owner)
            return str(MemPoolAgentStub(channel).Claim(request, timeout=10).owner)

    assert claim("first/pool") == "first/pool"
    assert claim("second") == "first/pool"
    agent.kill()
    agent = host.restart(agent)
    assert claim("second") == "first/pool"
    agent.stop()
    agent = host.restart(agent, "32M", "--discard")
    assert claim("second") == "second"


@pytest.mark.parametrize("seconds", [None, 3600])
def test_streams_need_a_near_deadline(stub: Any, agent: RunningAgent, seconds: float | None) -> None:
    with pytest.raises(grpc.RpcError) as error:
        list(stub.Read(pb.ReadRequest(segment_id=agent.segment_id, ranges=[entry()]), timeout=seconds))
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.RpcError) as error:
        stub.Write(iter(()), timeout=seconds)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_readers_that_take_nothing_hold_their_streams_until_their_deadline(
    stub: Any, agent: RunningAgent
) -> None:
    size, range_id = 8 << 20, 1 << 40
    data = bytes(size)
    wanted = entry(16 << 20, size, range_id)
    checksum = payload_checksum(data, range_id)
    chunks = [
        pb.WriteChunk(segment_id=agent.segment_id, range=wanted, checksum=checksum, data=data[: 1 << 20]),
        *(pb.WriteChunk(data=data[: 1 << 20]) for _ in range(7)),
    ]
    assert [one.outcome for one in stub.Write(iter(chunks), timeout=10).results] == [pb.OUTCOME_OK]
    request = pb.ReadRequest(segment_id=agent.segment_id, ranges=[wanted] * 64)
    calls = [stub.Read(request, timeout=2) for _ in range(8)]

    def streams() -> int:
        return int(stub.Describe(pb.DescribeRequest(), timeout=5).figures.open_streams)

    eventually(lambda: streams() == len(calls))
    eventually(lambda: streams() == 0)
    for call in calls:
        call.cancel()


async def test_one_list_looks_into_few_slabs_held_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Going through a large segment whose blocks are gone took longer than a call may, every time."""
    monkeypatch.setattr(service, "_SLABS_AT_ONCE", 2)
    layout = SegmentLayout(5)
    superblock = Superblock("a", "0" * 16, layout, 0)
    memory = SegmentMemory(mmap.mmap(-1, layout.file_bytes), superblock)
    agent = service.AgentService(Segment(Path("none"), memory, is_taken_over=False), 2, "")
    last = layout.place(4 << 24, 4096)
    agent.slots.open(last, 7)
    agent.slots.commit(last, 7, 1)
    seen, slab = [], 0
    for _ in range(3):
        answer = await agent.List(pb.ListRequest(segment_id="0" * 16, first_slab=slab), None)
        slab = answer.next_slab
        seen.append((slab, [one.range.range_id for one in answer.ranges]))
    assert seen == [(2, []), (4, []), (0, [7])]
