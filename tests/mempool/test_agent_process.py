"""The agent as an operator meets it: options, errors, restarts, and what stays in memory."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kvcm_platform.core.pool_layout import pool_range
from kvcm_platform.core.uris import parse_uri
from kvcm_platform.mempool_agent.options import size_bytes
from kvcm_platform.transfer import PoolTransfer, TransferError
from kvcm_platform.transfer.pool_agents import Agent
from kvcm_platform.transfer.pool_memory import NotReadable, SegmentMemory
from tests.support.mempool import ROOT, AgentHost, RunningAgent, pool_uri, spec_of

MIB = 1 << 20


def end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, said = process.communicate(timeout=60)
    return process.returncode, said


def reason(result: object) -> str:
    assert isinstance(result, TransferError)
    return result.reason


def reads(agent: RunningAgent, uris: list[str]) -> list[bytes | TransferError]:
    with PoolTransfer(spec_of(agent)) as transfer:
        return transfer.read_batch(uris)


@pytest.mark.parametrize(
    ("text", "size"),
    [("16M", 16 * MIB), ("1G", 1 << 30), ("33M", 32 * MIB), ("1.5GiB", 3 << 29), ("33554432", 32 * MIB)],
)
def test_sizes(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--size", "1M"), "not between 16M"),
        (("--size", "64X"), "not a size"),
        (("--size", "32M", "--node-id", "a/b"), "letters"),
        (("--size", "32M", "--port", "x"), "not a port"),
        (("--size", "32M", "--bind", "0.0.0.0"), "token is needed"),
        (("--size", "32M", "--numa", "4711"), "no NUMA node 4711"),
        (("--size", "32M", "--token-file", "/nowhere"), "--token-file"),
        (("--size", "32M", "--file-mode", "444"), "octal mode"),
        (("--size", "32M", "--directory", "/nowhere"), "not a directory"),
    ],
)
def test_options_that_cannot_be(options: tuple[str, ...], said: str) -> None:
    command = [sys.executable, "-m", "kvcm_platform.mempool_agent", "--node-id", "a", *options]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 2
    assert said in run.stderr


def test_a_restart_takes_the_memory_over(host: AgentHost) -> None:
    first = host.start()
    uris = [pool_uri(at * MIB, MIB) for at in range(3)]
    blocks = [os.urandom(MIB) for _ in uris]
    with PoolTransfer(spec_of(first)) as transfer:
        assert transfer.write_batch(list(zip(uris, blocks, strict=True))) == [None] * 3
    assert first.stop() == 0
    second = host.restart(first)
    assert second.ready["is_taken_over"]
    assert second.segment_id == first.segment_id
    assert reads(second, uris) == blocks
    second.kill()
    third = host.restart(second)
    assert third.segment_id == first.segment_id
    assert reads(third, uris) == blocks
    seen = Agent(third.address, "", 3).describe()
    assert seen.held_bytes == 3 * MIB


@pytest.mark.parametrize("options", [("48M",), ("32M", "--discard")])
def test_other_memory_is_another_segment(host: AgentHost, options: tuple[str, ...]) -> None:
    first = host.start()
    uri = pool_uri(0, MIB)
    with PoolTransfer(spec_of(first)) as transfer:
        transfer.write_batch([(uri, bytes(MIB))])
        assert transfer.read_batch([uri]) == [bytes(MIB)]
        first.stop()
        second = host.restart(first, *options)
        assert not second.ready["is_taken_over"]
        assert second.segment_id != first.segment_id
        assert not first.path.exists()
        later = pool_uri(0, MIB)
        # The transfer finds out by itself.
        assert transfer.write_batch([(later, b"x" * MIB)]) == [None]
        assert transfer.read_batch([later]) == [b"x" * MIB]
    assert "not there" in reason(reads(second, [uri])[0])


def test_memory_that_is_given_up_comes_back_from_those_who_map_it(host: AgentHost) -> None:
    first = host.start()
    uri = pool_uri(0, MIB)
    with PoolTransfer(spec_of(first)) as transfer:
        transfer.write_batch([(uri, b"x" * MIB)])
        memory = SegmentMemory.map(str(first.path))
        place = memory.layout.place(0, MIB)
        assert memory.read(place, pool_range(parse_uri(uri)).range_id) == b"x" * MIB
        first.stop()
        host.restart(first, "32M", "--discard")
        with pytest.raises(NotReadable, match="not there"):
            memory.read(place, pool_range(parse_uri(uri)).range_id)
        assert memory.payload(place) == bytes(MIB)
        assert "not there" in reason(transfer.read_batch([uri])[0])


def test_a_half_made_segment_is_none(host: AgentHost) -> None:
    first = host.start()
    first.stop()
    first.path.write_bytes(first.path.read_bytes()[: 8 * MIB])
    (host.directory / "kvcm-a-new-0123456789abcdef").write_bytes(b"left over")
    second = host.restart(first)
    assert not second.ready["is_taken_over"]
    assert sorted(path.name for path in host.directory.iterdir()) == ["kvcm-a.lock", second.path.name] or (
        sorted(path.name for path in host.directory.iterdir()) == [second.path.name, "kvcm-a.lock"]
    )


def test_memory_can_be_given_back(host: AgentHost) -> None:
    agent = host.start("a", "32M", "--remove-at-end")
    assert agent.path.exists()
    agent.stop()
    assert not agent.path.exists()


def test_one_agent_a_node(host: AgentHost) -> None:
    host.start("a")
    code, said = end_of(host.launch("a"))
    assert code == 1
    assert "an agent of node a is already running" in said
    assert host.start("b").ready["node_id"] == "b"


def test_a_port_that_is_taken(host: AgentHost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = end_of(host.launch("a", "32M", "--port", str(port)))
    assert code == 1
    assert f"port {port} of 127.0.0.1 cannot be had" in said
    other = host.start("a")
    code, said = end_of(host.launch("b", "32M", "--port", str(other.port)))
    assert code == 1
    assert f"port {other.port}" in said


def test_more_memory_than_there_is_keeps_what_there_was(host: AgentHost) -> None:
    first = host.start()
    first.stop()
    code, said = end_of(host.launch("a", "32T"))
    assert code == 1
    assert "smaller --size" in said
    assert first.path.exists()
    assert host.restart(first).segment_id == first.segment_id


def test_the_memory_is_its_owners_alone(host: AgentHost) -> None:
    assert host.start("a").path.stat().st_mode & 0o777 == 0o600
    assert host.start("b", "32M", "--file-mode", "660").path.stat().st_mode & 0o777 == 0o660


def test_all_memory_is_reserved(host: AgentHost) -> None:
    path: Path = host.start().path
    assert path.stat().st_blocks * 512 >= path.stat().st_size


def test_a_token_is_asked_for(host: AgentHost, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret-1\n")
    agent = host.start("a", "32M", "--token-file", str(tmp_path / "token"))
    uri = pool_uri(0, 4096)
    for token in ("", "secret-2"):
        with PoolTransfer(spec_of(agent), token=token) as transfer:
            assert "wants its token" in reason(transfer.write_batch([(uri, bytes(4096))])[0])
    for is_remote in (True, False):
        with PoolTransfer(spec_of(agent), token="secret-1", is_remote=is_remote) as transfer:
            assert transfer.write_batch([(uri, bytes(4096))]) == [None]
            assert transfer.read_batch([uri]) == [bytes(4096)]
    other = host.start("b", "32M", KVCM_POOL_TOKEN="from-environment")
    with PoolTransfer(spec_of(other), token="from-environment") as transfer:
        assert transfer.write_batch([(pool_uri(0, 4096, node_id="b"), bytes(4096))]) == [None]
