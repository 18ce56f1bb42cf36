"""The backend of pools beyond what all types must do: which ranges go back when, whose memory it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kvcm_platform.core.pool_layout import pool_range
from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.uris import DataUri, parse_uri
from kvcm_platform.storage.backend import FreedObject, Ledgers
from kvcm_platform.storage.probe import probe
from kvcm_platform.storage.tair_mempool import TairMempoolBackend
from kvcm_platform.transfer import PoolTransfer, TransferError
from tests.support.mempool import AgentHost, RunningAgent, pool_storage, pool_uri, spec_of
from tests.support.storages import MemoryLedger

OWNER = "installation/pool"


class GivenBack:
    """A ledger of ranges that remembers, and can fail like Redis does."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.error: OSError | None = None

    async def give_back(self, range_ids: Sequence[int]) -> None:
        if self.error is not None:
            raise self.error
        self.ids += range_ids


def backend_of(entry: StorageEntry, ranges: GivenBack | None = None) -> TairMempoolBackend:
    return TairMempoolBackend(entry, Ledgers(MemoryLedger(), ranges or GivenBack()))


def id_of(uri: str) -> int:
    return pool_range(parse_uri(uri)).range_id


async def test_served_ranges_go_back_at_once(host: AgentHost) -> None:
    agent, ranges = host.start(), GivenBack()
    backend = backend_of(pool_storage(agent), ranges)
    uris = [pool_uri(at * 4096, 4096) for at in range(3)]
    with PoolTransfer(spec_of(agent)) as transfer:
        assert transfer.write_batch([(uri, bytes(4096)) for uri in uris]) == [None] * 3
        assert await backend.delete([FreedObject(parse_uri(uri)) for uri in uris[:2]]) == ["", ""]
        assert ranges.ids == [id_of(uri) for uri in uris[:2]]
        found = transfer.read_batch(uris)
        assert found[2] == bytes(4096)
        assert all(isinstance(one, TransferError) and one.reason == "deleted" for one in found[:2])
    await backend.close()


async def test_ranges_of_unfinished_writes_wait_for_the_second_pass(host: AgentHost) -> None:
    agent, ranges = host.start(), GivenBack()
    backend = backend_of(pool_storage(agent), ranges)
    half, never = (parse_uri(pool_uri(at * 4096, 4096)) for at in range(2))
    first = [FreedObject(half, was_served=False), FreedObject(never, was_served=False)]
    assert await backend.delete(first) == ["", ""]
    assert ranges.ids == []
    with PoolTransfer(spec_of(agent)) as transfer:
        late = [
            f"pace://pool{uri.path}?media_type=2&node_id=a&range_id={uri.params['range_id']}&size=4096"
            for uri in (half, never)
        ]
        for error in transfer.write_batch([(uri, bytes(4096)) for uri in late]):
            assert isinstance(error, TransferError)
            assert error.reason == "the range was released"
    assert await backend.delete([replace(one, is_second_pass=True) for one in first]) == ["", ""]
    assert ranges.ids == [int(uri.params["range_id"]) for uri in (half, never)]
    await backend.close()


async def test_nothing_goes_back_that_the_agent_was_not_told(host: AgentHost) -> None:
    agents, ranges = [host.start(node) for node in "ab"], GivenBack()
    backend = backend_of(pool_storage(*agents), ranges)
    uris = [pool_uri(0, 4096, node_id=node) for node in "ab"]
    agents[1].kill()
    reasons = await backend.delete([FreedObject(parse_uri(uri)) for uri in uris])
    assert reasons[0] == ""
    assert agents[1].address in reasons[1]
    assert ranges.ids == [id_of(uris[0])]
    ranges.error = OSError("the index is away")
    assert await backend.delete([FreedObject(parse_uri(uris[0]))]) == ["the index is away"]
    await backend.close()


async def test_a_node_that_is_away_is_not_asked(host: AgentHost) -> None:
    agent = host.start()
    entry = pool_storage(agent)
    away = replace(entry, segments=(replace(entry.segments[0], is_available=False),))
    backend = backend_of(away)
    uri = parse_uri(pool_uri(0, 4096))
    assert await backend.delete([FreedObject(uri)]) == ["pool: node a is away"]
    with pytest.raises(OSError, match="node a is away"):
        await backend.exist([uri])
    await backend.close()


async def test_other_memory_of_the_node_is_not_touched(host: AgentHost) -> None:
    """The registry still has the segment before; its blocks are lost, and said to be so elsewhere."""
    agent, ranges = host.start(), GivenBack()
    entry = pool_storage(agent)
    agent.stop()
    agent = host.restart(agent, "32M", "--discard")
    backend = backend_of(entry, ranges)
    uri = pool_uri(0, 4096)
    with PoolTransfer(spec_of(agent)) as transfer:
        assert transfer.write_batch([(uri, bytes(4096))]) == [None]
        (reason,) = await backend.delete([FreedObject(parse_uri(uri))])
        assert "not the segment of this agent" in reason
        assert ranges.ids == []
        with pytest.raises(OSError, match="not the segment"):
            await backend.exist([parse_uri(uri)])
        assert transfer.read_batch([uri]) == [bytes(4096)]
    await backend.close()


async def test_uris_that_no_slot_answers_to(host: AgentHost) -> None:
    agent, ranges = host.start(), GivenBack()
    backend = backend_of(pool_storage(agent), ranges)
    bad = [pool_uri(7, 4096), pool_uri(1 << 40, 4096), "pace://pool/0?size=5", "file://pool/x?size=4"]
    parsed: list[DataUri] = [parse_uri(uri) for uri in bad]
    assert await backend.exist(parsed) == [False] * 4
    assert all(await backend.delete([FreedObject(uri) for uri in parsed]))
    (elsewhere,) = await backend.delete([FreedObject(parse_uri(pool_uri(0, 4096, node_id="z")))])
    assert elsewhere == "pool has no segment of node z"
    assert ranges.ids == []
    await backend.close()


def test_a_probe_sees_every_node(host: AgentHost) -> None:
    agents = [host.start(node) for node in "ab"]
    entry = pool_storage(*agents)
    with PoolTransfer(spec_of(*agents)) as transfer:
        transfer.write_batch([(pool_uri(0, 5000, node_id="b"), bytes(5000))])
    result = probe(entry)
    assert (result.is_ok, result.message) == (True, "")
    assert (result.used_bytes, result.capacity_bytes) == (5000, 64 << 20)
    assert [
        (seen.node_id, seen.segment_id, seen.address, seen.size_bytes, seen.used_bytes)
        for seen in sorted(result.segments, key=lambda seen: seen.node_id)
    ] == [
        ("a", agents[0].segment_id, agents[0].address, 32 << 20, 0),
        ("b", agents[1].segment_id, agents[1].address, 32 << 20, 5000),
    ]
    agents[0].kill()
    result = probe(entry)
    assert result.is_ok
    assert agents[0].address in result.message
    assert [seen.node_id for seen in result.segments] == ["b"]
    agents[1].kill()
    assert not probe(entry).is_ok


def test_memory_of_somebody_else_is_not_dealt_out(host: AgentHost) -> None:
    agent = host.start()
    entry = pool_storage(agent)
    assert probe(entry, owner=OWNER).segments
    assert probe(entry, owner=OWNER).segments
    other = probe(entry, owner="installation/second")
    assert (other.is_ok, other.segments) == (False, ())
    assert f"belongs to {OWNER}" in other.message
    assert probe(entry).segments, "who only looks claims nothing"


def test_two_nodes_of_one_name(host: AgentHost, tmp_path_factory: pytest.TempPathFactory) -> None:
    """URIs could not tell them apart: the newcomer is left out, and named."""
    first = host.start("a")
    elsewhere = AgentHost(tmp_path_factory.mktemp("other-host"))
    try:
        second = elsewhere.start("a")
        result = probe(pool_storage(first, second))
    finally:
        elsewhere.close()
    addresses = {first.address, second.address}
    (seen,) = result.segments
    assert seen.address in addresses
    assert f"node a is at {seen.address} already" in result.message


async def test_a_pool_that_is_claimed(host: AgentHost) -> None:
    agents: list[RunningAgent] = [host.start(node) for node in "ab"]
    backend = backend_of(pool_storage(*agents))
    assert await backend.claim(OWNER) == OWNER
    assert await backend.claim("other") == OWNER
    await backend.close()
