"""Blocks to and from a pool: over shared memory and over the network alike."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvcm_platform.core.storage_configs import described
from kvcm_platform.transfer import PoolTransfer, TransferError, TransferOptions, Transfers, block_checksum
from kvcm_platform.transfer.pool_discovery import PoolSpec
from kvcm_platform.transfer.pool_memory import BadSegment, SegmentMemory
from tests.support.eventually import eventually
from tests.support.mempool import (
    AgentHost,
    RunningAgent,
    agent_host,
    pool_storage,
    pool_uri,
    spec_of,
)

KIB, MIB = 1 << 10, 1 << 20
SIZES = (1, 4096, 4097, 64 * KIB, MIB, MIB + 1, 6 * MIB)


@pytest.fixture(scope="module")
def agent() -> Iterator[RunningAgent]:
    with agent_host() as host:
        yield host.start("a", "256M")


@pytest.fixture(params=[False, True], ids=["local", "remote"])
def transfer(agent: RunningAgent, request: pytest.FixtureRequest) -> Iterator[PoolTransfer]:
    with PoolTransfer(spec_of(agent), is_remote=request.param) as transfer:
        yield transfer


def reason(result: object) -> str:
    assert isinstance(result, TransferError), result
    return result.reason


def test_what_is_written_is_read_by_both(agent: RunningAgent) -> None:
    """Two slabs a size, so that every size has its own."""
    with PoolTransfer(spec_of(agent)) as local, PoolTransfer(spec_of(agent), is_remote=True) as remote:
        for writer in (local, remote):
            uris = [pool_uri(at * (32 << 20), size) for at, size in enumerate(SIZES)]
            blocks = [os.urandom(size) for size in SIZES]
            assert writer.write_batch(list(zip(uris, blocks, strict=True))) == [None] * len(SIZES)
            assert local.read_batch(uris) == blocks
            assert remote.read_batch(uris) == blocks
            sums = [block_checksum(block) for block in blocks]
            sums[2] ^= 1
            found = local.read_batch(uris, sums)
            assert "checksum" in reason(found.pop(2))
            assert found == blocks[:2] + blocks[3:]


def test_a_batch_of_many_parts_keeps_its_order(transfer: PoolTransfer) -> None:
    uris = [pool_uri(at * 4096, 4096) for at in range(600)]
    blocks = [os.urandom(4096) for _ in uris]
    assert transfer.write_batch(list(zip(uris, blocks, strict=True))) == [None] * 600
    assert transfer.read_batch(uris[::-1]) == blocks[::-1]
    assert transfer.read_batch([]) == []
    assert transfer.write_batch([]) == []


def test_each_block_fails_for_itself(transfer: PoolTransfer) -> None:
    good = pool_uri(0, 4096)
    uris = [
        good,
        pool_uri(4096, 4096),
        pool_uri(1 << 40, 4096),
        pool_uri(100, 4096),
        pool_uri(0, 4096, node_id="nowhere"),
        "file://pool/x?size=4096",
        "pace://pool/0?node_id=a&range_id=1&size=0",
    ]
    assert transfer.write_batch([(good, bytes(4096))]) == [None]
    found = transfer.read_batch(uris)
    assert found[0] == bytes(4096)
    expected = ("not there", "beyond", "no slot", "no agent of node nowhere", "scheme", "between 1")
    for result, word in zip(found[1:], expected, strict=True):
        assert word in reason(result)
    written = transfer.write_batch([(uri, bytes(4096)) for uri in uris[:6]])
    assert written[:2] == [None, None]
    for result, word in zip(written[2:], expected[1:], strict=False):
        assert word in reason(result)


def test_data_of_another_size(transfer: PoolTransfer) -> None:
    with pytest.raises(ValueError, match="5 bytes for a range of 4096"):
        transfer.write_batch([(pool_uri(0, 4096), b"12345")])


def test_a_range_is_written_once(transfer: PoolTransfer) -> None:
    uri = pool_uri(0, 4096)
    assert transfer.write_batch([(uri, b"x" * 4096)]) == [None]
    assert transfer.write_batch([(uri, b"x" * 4096)]) == [None]
    assert "committed before" in reason(transfer.write_batch([(uri, b"y" * 4096)])[0])
    assert transfer.read_batch([uri]) == [b"x" * 4096]


def test_an_earlier_range_is_over(transfer: PoolTransfer) -> None:
    first, second = pool_uri(0, 4096), pool_uri(0, 4096)
    assert transfer.write_batch([(first, b"x" * 4096)]) == [None]
    assert transfer.write_batch([(second, b"y" * 4096)]) == [None]
    assert "not there" in reason(transfer.read_batch([first])[0])
    assert "later owner" in reason(transfer.write_batch([(first, b"x" * 4096)])[0])
    assert transfer.read_batch([second]) == [b"y" * 4096]


def test_bytes_that_changed_in_memory(agent: RunningAgent, transfer: PoolTransfer) -> None:
    uri = pool_uri(4096, 4096)
    assert transfer.write_batch([(uri, b"x" * 4096)]) == [None]
    memory = SegmentMemory.map(str(agent.path), is_writable=True)
    memory.payload(memory.layout.place(4096, 4096))[7] = 0
    assert "checksum differs" in reason(transfer.read_batch([uri])[0])


def test_blocks_without_a_copy(agent: RunningAgent) -> None:
    with PoolTransfer(spec_of(agent)) as transfer:
        uri = pool_uri(8192, 4096)
        with transfer.writing(uri) as slot:
            slot[:] = b"z" * 4096
        with transfer.reading(uri) as view:
            assert view == b"z" * 4096
            assert view.readonly
        with pytest.raises(ZeroDivisionError), transfer.writing(later := pool_uri(8192, 4096)) as slot:
            slot[:10] = b"0" * 10
            raise ZeroDivisionError
        assert "not written to its end" in reason(transfer.read_batch([later])[0])
        with pytest.raises(TransferError, match="not there"), transfer.reading(uri):
            pass
    with (
        PoolTransfer(spec_of(agent), is_remote=True) as transfer,
        pytest.raises(TransferError, match="not on this host"),
        transfer.reading(uri),
    ):
        pass


def test_a_view_whose_slot_was_given_away(agent: RunningAgent) -> None:
    uri, later = pool_uri(8192, 4096), pool_uri(8192, 4096)
    with PoolTransfer(spec_of(agent)) as transfer:
        assert transfer.write_batch([(uri, b"z" * 4096)]) == [None]
        with pytest.raises(TransferError, match="another owner while"), transfer.reading(uri):
            transfer.write_batch([(later, b"z" * 4096)])


def test_the_same_host_is_told_by_the_segment_itself(agent: RunningAgent, tmp_path: Path) -> None:
    assert SegmentMemory.map(str(agent.path), segment_id=agent.segment_id).layout.size_bytes == 256 * MIB
    with pytest.raises(BadSegment, match="not 0000"):
        SegmentMemory.map(str(agent.path), segment_id="0" * 16)
    other = tmp_path / "file"
    for content in (b"", b"x" * 5000, agent.path.open("rb").read(5000)):
        other.write_bytes(content)
        with pytest.raises(BadSegment):
            SegmentMemory.map(str(other))


def test_local_reads_ask_nobody(host: AgentHost) -> None:
    agent = host.start()
    uris = [pool_uri(at * 4096, 4096) for at in range(4)]
    with PoolTransfer(spec_of(agent)) as transfer:
        transfer.write_batch([(uri, b"k" * 4096) for uri in uris])
        agent.kill()
        assert transfer.read_batch(uris) == [b"k" * 4096] * 4
        assert agent.address in reason(transfer.write_batch([(pool_uri(0, 4096), bytes(4096))])[0])
        host.restart(agent)
        eventually(lambda: transfer.write_batch([(pool_uri(0, 4096), bytes(4096))]) == [None])


def test_a_segment_file_that_was_removed_under_its_agent(host: AgentHost) -> None:
    """As a clean-up of /dev/shm may do it: the agent serves its memory on, over the network."""
    agent = host.start()
    with PoolTransfer(spec_of(agent)) as reader, PoolTransfer(spec_of(agent)) as writer:
        before, after, last = pool_uri(0, KIB), pool_uri(4096, KIB), pool_uri(8192, KIB)
        assert writer.write_batch([(before, b"1" * KIB)]) == [None]
        assert reader.read_batch([before]) == [b"1" * KIB]
        agent.path.unlink()
        # One has mapped it for reading, the other for writing, too.
        assert reader.write_batch([(after, b"2" * KIB)]) == [None]
        assert writer.write_batch([(last, b"3" * KIB)]) == [None]
        for one in (reader, writer):
            assert one.read_batch([before, after, last]) == [b"1" * KIB, b"2" * KIB, b"3" * KIB]


def test_an_agent_that_hangs_costs_its_time_limit(host: AgentHost) -> None:
    import signal

    agent = host.start()
    spec = PoolSpec(agent.address, seconds=0.3)
    with PoolTransfer(spec, is_remote=True, call_seconds=0.5) as transfer:
        uri = pool_uri(0, 4096)
        assert transfer.write_batch([(uri, bytes(4096))]) == [None]
        agent.process.send_signal(signal.SIGSTOP)
        try:
            assert agent.address in reason(transfer.read_batch([uri])[0])
            assert agent.address in reason(transfer.write_batch([(pool_uri(0, 4096), bytes(4096))])[0])
        finally:
            agent.process.send_signal(signal.SIGCONT)
        assert transfer.read_batch([uri]) == [bytes(4096)]


def test_the_uri_finds_the_pool(host: AgentHost) -> None:
    agents = [host.start(node) for node in "ab"]
    storage = pool_storage(*agents)
    uris = [pool_uri(at * 4096, 4096, node_id=node) for at in range(3) for node in "ab"]
    blocks = [os.urandom(4096) for _ in uris]
    with Transfers([described(storage)], options=TransferOptions(pool_token="")) as transfers:
        assert transfers.write_batch(list(zip(uris, blocks, strict=True))) == [None] * 6
        assert transfers.read_batch(uris) == blocks
        agents[1].kill()
        agents[1].path.unlink()
    with Transfers([described(storage)]) as transfers:
        found = transfers.read_batch(uris)
        assert found[::2] == blocks[::2]
        assert all("node b" in reason(result) for result in found[1::2])
