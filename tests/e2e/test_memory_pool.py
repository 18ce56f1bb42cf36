"""A memory pool under the whole platform: agents that are killed amid traffic, and return."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from kvcm_platform.core.registry import PoolSegment
from kvcm_platform.index import registry
from kvcm_platform.pb import meta_service_pb2 as pb
from kvcm_platform.settings.env import Env
from kvcm_platform.transfer.pool_agents import Agent
from tests.e2e.conftest import PASSWORD
from tests.support.mempool import ROOT, AgentHost, RunningAgent, agent_host, pool_spec
from tests.support.platform_process import PlatformProcess, short_data_dir, wait_for
from tests.support.replays import generated_trace, manage, recount, replay, replay_command

BLOCK = 64 << 10
TOKEN = "the pool's token"

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


class PoolPlatform:
    """A platform whose default group prefers a pool of two nodes, with nfs_01 behind it."""

    def __init__(self, process: PlatformProcess, host: AgentHost) -> None:
        self.process = process
        self.host = host
        self.agents = {node: host.start(node, "64M", KVCM_POOL_TOKEN=TOKEN) for node in "ab"}
        done = manage(process, "create_token", "--username", "admin", "--name", "pool")
        self._token = done.stdout.split()[-1]
        self.rest(
            "POST",
            "storages/",
            {"name": "pool", "type": "tair_mempool", "spec": pool_spec(*self.agents.values())},
        )
        group = self.rest("GET", "instance-groups/default/")
        change = {
            "version": group["version"],
            "storage_candidates": ["pool", "nfs_01"],
            "quota": {"capacity_bytes": 10**15, "per_type": {}},
        }
        self.rest("PATCH", "instance-groups/default/", change)

    def rest(self, method: str, path: str, body: dict | None = None) -> dict:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.process.port('KVCM_WEB_PORT')}/api/v1/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def segments(self) -> dict[str, PoolSegment]:
        with redis.Redis.from_url(Env(self.process.environment).redis_url) as client:
            storage = registry.read(client).storages["pool"]
        return {segment.node_id: segment for segment in storage.segments}

    def serves(self, *nodes: str) -> bool:
        return {node for node, segment in self.segments().items() if segment.is_available} == set(nodes)

    def held_bytes(self, node: str) -> int:
        agent = Agent(self.agents[node].address, TOKEN, 5)
        try:
            return agent.describe().held_bytes
        finally:
            agent.close()

    def used_bytes(self) -> int:
        return self.rest("GET", "instances/pooled/")["usage"]["used_bytes"]

    def restart(self, node: str, *options: str) -> RunningAgent:
        old = self.agents[node]
        port = ("--port", str(old.port))
        self.agents[node] = self.host.start(node, "64M", *port, *options, KVCM_POOL_TOKEN=TOKEN)
        return self.agents[node]

    def replay(self, trace: Path) -> dict:
        return replay(self.process, trace, *OPTIONS)

    def trim(self) -> None:
        port = self.process.port("KVCM_META_HTTP_PORT")
        body = json.dumps({"instance_id": "pooled", "strategy": "TS_REMOVE_ALL_CACHE"}).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/trimCache", body, timeout=30) as answer:
            assert json.load(answer)["header"]["status"]["code"] == pb.ErrorCode.Name(pb.OK)


OPTIONS = ("--instance", "pooled", "--with-data", "--block-bytes", str(BLOCK))


@pytest.fixture
def platform() -> Iterator[PoolPlatform]:
    with short_data_dir() as folder, agent_host() as host:
        process = PlatformProcess(
            ["manage.py", "up"],
            folder,
            KVCM_ADMIN_PASSWORD=PASSWORD,
            KVCM_METADATA_WORKERS="1",
            KVCM_POOL_TOKEN=TOKEN,
            KVCM_REUSE_QUARANTINE_S="3600",
        )
        try:
            process.wait_until_ready(120)
            yield PoolPlatform(process, host)
        finally:
            process.end()


def test_a_node_dies_and_another_takes_its_part(platform: PoolPlatform, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    _, blocks, hits = generated_trace(trace, requests=50)
    wait_for(lambda: platform.serves("a", "b"), 60, "both nodes serve")

    first = platform.replay(trace)
    assert (first["bytes_wrong"], first["errors"], first["hit_blocks"]) == (0, 0, hits)
    assert first["bytes_read"] == hits * BLOCK
    held = {node: platform.held_bytes(node) for node in "ab"}
    assert sum(held.values()) == first["bytes_written"] == platform.used_bytes()
    assert min(held.values()) > 0, "free space decides, so both take their part"

    was = platform.segments()["b"].number
    # Killed amid reads and writes of a second trace.
    other = tmp_path / "other.jsonl"
    generated_trace(other, requests=150, seed=9)
    running = subprocess.Popen(
        [*replay_command(platform.process, other, *OPTIONS), "--engines", "2"],
        cwd=ROOT,
        env=platform.process.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: platform.held_bytes("b") > held["b"] or running.poll() is not None, 60, "writes go on")
    platform.agents["b"].kill()
    said, errors = running.communicate(timeout=300)
    assert running.returncode == 0, errors
    assert json.loads(said)["bytes_wrong"] == 0
    wait_for(lambda: platform.serves("a"), 60, "the dead node is out")

    again = platform.replay(trace)
    assert (again["bytes_wrong"], again["errors"]) == (0, 0), (
        "what lay on it are misses, and written elsewhere"
    )
    assert 0 < again["hit_blocks"] < blocks
    assert again["written_blocks"] > 0
    full = platform.replay(trace)
    assert (full["hit_blocks"], full["written_blocks"], full["bytes_wrong"]) == (blocks, 0, 0)

    platform.restart("b", "--discard")
    wait_for(lambda: platform.serves("a", "b"), 60, "the node is back with other memory")
    assert platform.segments()["b"].number != was, "another life has another number"
    last = platform.replay(trace)
    assert (last["bytes_wrong"], last["errors"], last["hit_blocks"]) == (0, 0, blocks)

    platform.trim()
    wait_for(lambda: platform.used_bytes() == 0, 90, "usage is zero")
    wait_for(lambda: all(platform.held_bytes(node) == 0 for node in "ab"), 30, "nothing is held")
    recount(platform.process)


def test_an_agent_that_is_started_again_brings_its_blocks_back(
    platform: PoolPlatform, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.jsonl"
    _, blocks, hits = generated_trace(trace, requests=40)
    wait_for(lambda: platform.serves("a", "b"), 60, "both nodes serve")
    assert platform.replay(trace)["hit_blocks"] == hits
    number = platform.segments()["a"].number
    platform.agents["a"].kill()
    platform.restart("a")
    wait_for(lambda: platform.serves("a", "b"), 60, "both nodes serve")
    assert platform.segments()["a"].number == number
    again = platform.replay(trace)
    assert (again["hit_blocks"], again["bytes_wrong"], again["errors"]) == (blocks, 0, 0)
    recount(platform.process)
