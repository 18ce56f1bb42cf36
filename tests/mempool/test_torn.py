"""Writers and agents that die at any moment, and readers beside them: what is read is whole, and its own."""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event

import numpy as np
import pytest

from kvcm_platform.core.pool_layout import SlotState, pool_range
from kvcm_platform.core.uris import parse_uri
from kvcm_platform.transfer import PoolTransfer, TransferError
from kvcm_platform.transfer.pool_agents import Agent
from kvcm_platform.transfer.pool_discovery import PoolSpec
from kvcm_platform.transfer.pool_memory import SegmentMemory
from tests.support.mempool import AgentHost, RunningAgent, pool_uri, spec_of

MIB = 1 << 20
SIZE = MIB
SLOTS = 4


def content(range_id: int, size: int = SIZE) -> bytes:
    """What a range holds: every word names it."""
    return np.full(size // 8, range_id, np.uint64).tobytes()


def reuse(
    address: str, slots: list[int], first_id: int, newest: object, stop: Event, is_remote: bool
) -> None:
    """A writer that gives its slots to ever later ranges."""
    with PoolTransfer(PoolSpec(address, seconds=5), is_remote=is_remote, threads=1) as transfer:
        range_id = first_id
        while not stop.is_set():
            for slot in slots:
                range_id += 8
                uri = pool_uri(slot * SIZE, SIZE, range_id)
                if transfer.write_batch([(uri, content(range_id))]) == [None]:
                    newest[slot] = range_id  # type: ignore[index]


@pytest.mark.parametrize("is_remote", [False, True], ids=["local", "remote"])
def test_readers_beside_reuse_get_right_bytes_or_none(host: AgentHost, is_remote: bool) -> None:
    """Two writer processes reuse slots as fast as they can; reader threads of both kinds ask for the last
    ranges that were said to be written.
    """
    agent = host.start()
    context = multiprocessing.get_context("spawn")
    newest, stop = context.Array("q", SLOTS), context.Event()
    writers = [
        context.Process(
            target=reuse, args=(agent.address, [at, at + 2], 1000 + at, newest, stop, is_remote), daemon=True
        )
        for at in range(2)
    ]
    for writer in writers:
        writer.start()
    counts = {"read": 0, "gone": 0}
    wrong: list[str] = []
    end = threading.Event()

    def read(remote: bool, seed: int) -> None:
        chance = random.Random(seed)
        with PoolTransfer(spec_of(agent), is_remote=remote, threads=1) as transfer:
            while not end.is_set():
                slot = chance.randrange(SLOTS)
                range_id = newest[slot]
                if not range_id:
                    continue
                (found,) = transfer.read_batch([pool_uri(slot * SIZE, SIZE, range_id)])
                if isinstance(found, TransferError):
                    counts["gone"] += 1
                elif found == content(range_id):
                    counts["read"] += 1
                else:
                    wrong.append(f"slot {slot} range {range_id}")

    readers = [threading.Thread(target=read, args=(at % 2 == 1, at)) for at in range(6)]
    for reader in readers:
        reader.start()
    deadline = time.monotonic() + 60
    while counts["read"] < 400 and not wrong and time.monotonic() < deadline:
        end.wait(0.05)
    end.set()
    stop.set()
    for reader in readers:
        reader.join(30)
    for writer in writers:
        writer.join(30)
    assert not wrong
    assert counts["read"] >= 400


def test_a_writer_killed_between_open_and_commit(host: AgentHost) -> None:
    agent = host.start()
    memory = SegmentMemory.map(str(agent.path), is_writable=True)
    uri = pool_uri(0, SIZE)
    entry = pool_range(parse_uri(uri))
    caller = Agent(agent.address, "", 5)
    caller.open(agent.segment_id, [entry])
    place = memory.layout.place(0, SIZE)
    memory.payload(place)[: SIZE // 2] = content(entry.range_id, SIZE // 2)
    with PoolTransfer(spec_of(agent)) as local, PoolTransfer(spec_of(agent), is_remote=True) as remote:
        for transfer in (local, remote):
            (found,) = transfer.read_batch([uri])
            assert isinstance(found, TransferError)
            assert "not written to its end" in found.reason
        agent.kill()
        again = host.restart(agent)
        assert memory.look(place, entry.range_id).state is SlotState.WRITING
        assert isinstance(local.read_batch([uri])[0], TransferError)
        # Its writer may still come, or somebody else with the same range.
        assert Agent(again.address, "", 5).open(again.segment_id, [entry])[0].reason == ""
        assert local.write_batch([(uri, content(entry.range_id))]) == [None]
        assert remote.read_batch([uri]) == [content(entry.range_id)]


def test_a_late_memcpy_into_a_reused_slot_is_found(host: AgentHost) -> None:
    """The one thing that an agent cannot refuse: a stopped local writer that goes on after the reuse."""
    agent = host.start()
    stalled = SegmentMemory.map(str(agent.path), is_writable=True)
    first, second = pool_uri(0, SIZE), pool_uri(0, SIZE)
    place = stalled.layout.place(0, SIZE)
    with PoolTransfer(spec_of(agent)) as transfer:
        Agent(agent.address, "", 5).open(agent.segment_id, [pool_range(parse_uri(first))])
        assert transfer.write_batch([(second, b"s" * SIZE)]) == [None]
        with pytest.raises(TransferError, match="checksum"), transfer.reading(second):
            stalled.payload(place)[100:200] = b"f" * 100
        (found,) = transfer.read_batch([second])
        assert isinstance(found, TransferError)
        assert "checksum" in found.reason


def killing(agent: RunningAgent, after: float) -> Callable[[], None]:
    timer = threading.Timer(after, agent.process.kill)
    timer.start()
    return timer.join


@pytest.mark.parametrize("is_remote", [False, True], ids=["local", "remote"])
def test_an_agent_killed_amid_writes(host: AgentHost, is_remote: bool) -> None:
    """What a writer was told is written is there after the restart; all else is whole or absent."""
    agent = host.start()
    chance = random.Random(7)
    said: dict[str, int] = {}
    tried: dict[str, int] = {}
    for _ in range(6):
        wait = killing(agent, chance.uniform(0.02, 0.2))
        with PoolTransfer(spec_of(agent), is_remote=is_remote, call_seconds=5) as transfer:
            while agent.process.poll() is None:
                batch = []
                for slot in range(8):
                    uri = pool_uri(slot * SIZE, SIZE)
                    batch.append((uri, pool_range(parse_uri(uri)).range_id))
                tried = dict(batch)
                results = transfer.write_batch([(uri, content(range_id)) for uri, range_id in batch])
                written = {
                    uri: range_id
                    for (uri, range_id), result in zip(batch, results, strict=True)
                    if not result
                }
                if written:
                    said = {**written} if len(written) == 8 else said
        wait()
        agent.process.wait(30)
        agent = host.restart(agent)
        with PoolTransfer(spec_of(agent)) as transfer:
            for uri, range_id in tried.items():
                (found,) = transfer.read_batch([uri])
                assert isinstance(found, TransferError) or found == content(range_id)
                if said.get(uri) == range_id:
                    assert found == content(range_id)
            assert transfer.write_batch([(pool_uri(0, SIZE), bytes(SIZE))]) == [None]
    assert said
    assert os.path.exists(agent.path)
