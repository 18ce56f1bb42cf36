"""Programs that answer like an agent, and say what cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from kvcm_platform.core.pool_layout import PoolRange
from kvcm_platform.pb import mempool_agent_pb2 as pb
from kvcm_platform.pb.mempool_agent_pb2_grpc import MemPoolAgentServicer, add_MemPoolAgentServicer_to_server
from kvcm_platform.transfer.pool_agents import Agent, AgentDirectory, AgentError
from kvcm_platform.transfer.pool_discovery import PoolSpec

HONEST = {"node_id": "a", "segment_id": "0" * 16, "size_bytes": 32 << 20, "layout_version": 1}
ONE = PoolRange("a", 0, 4096, 5)


class Liar(MemPoolAgentServicer):
    """Answers for no range at all."""

    def __init__(self, said: dict[str, Any]) -> None:
        self._said = said

    def Describe(self, _request: Any, _context: Any) -> pb.DescribeResponse:
        return pb.DescribeResponse(**self._said)

    def Open(self, _request: Any, _context: Any) -> pb.RangeResults:
        return pb.RangeResults()

    Commit = Open

    def Write(self, chunks: Any, _context: Any) -> pb.RangeResults:
        list(chunks)
        return pb.RangeResults()

    def Stat(self, _request: Any, _context: Any) -> pb.StatResponse:
        return pb.StatResponse()


@contextmanager
def liar(**said: Any) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(2))
    add_MemPoolAgentServicer_to_server(Liar({**HONEST, **said}), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None)


@pytest.mark.parametrize(
    "said",
    [
        {"node_id": ""},
        {"node_id": "a&range_id=7"},
        {"node_id": "a" * 64},
        {"segment_id": "../../x"},
        {"segment_id": "0" * 400},
        {"size_bytes": 0},
        {"size_bytes": (1 << 64) - 1},
    ],
    ids=str,
)
def test_what_an_agent_cannot_be_is_no_node_of_the_pool(said: dict[str, Any]) -> None:
    """It would stand in URIs, or keep the health of all storages from being written down."""
    with liar(**said) as address:
        directory = AgentDirectory(PoolSpec(address))
        try:
            survey = directory.survey()
            assert survey.seen == ()
            assert len(survey.failures) == 1
            assert address in survey.failures[0]
        finally:
            directory.close()


def test_more_held_than_there_is() -> None:
    with liar(figures=pb.Figures(held_bytes=(1 << 64) - 1)) as address:
        agent = Agent(address, "", 5)
        assert agent.describe().held_bytes == 32 << 20
        agent.close()


def test_answers_for_other_ranges_than_those_asked_for() -> None:
    with liar() as address:
        agent = Agent(address, "", 5)
        calls = [
            lambda: agent.open("0" * 16, [ONE]),
            lambda: agent.commit("0" * 16, [ONE], [1]),
            lambda: agent.stat("0" * 16, [ONE]),
            lambda: agent.write("0" * 16, [(ONE, b"1" * 4096, 1)], 5),
        ]
        for call in calls:
            with pytest.raises(AgentError, match="answered for 0 ranges of 1"):
                call()
        agent.close()
