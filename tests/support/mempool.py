"""Real agents of memory pools with small segments, on free ports; memory and processes go at the end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from kvcm_platform.core.registry import PoolSegment, StorageEntry
from kvcm_platform.core.types import StorageType
from kvcm_platform.transfer.pool_discovery import PoolSpec

ROOT = Path(__file__).parents[2]
START_SECONDS = 60
_RANGE_IDS = count(1_000_000)


@dataclass
class RunningAgent:
    """One agent process. `ready` is what it printed."""

    process: subprocess.Popen[str]
    ready: dict[str, object]

    @property
    def address(self) -> str:
        return str(self.ready["address"])

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def segment_id(self) -> str:
        return str(self.ready["segment_id"])

    @property
    def path(self) -> Path:
        return Path(str(self.ready["path"]))

    @property
    def size_bytes(self) -> int:
        return int(str(self.ready["size_bytes"]))

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.terminate()
        return self.process.wait(START_SECONDS)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(START_SECONDS)


@dataclass
class AgentHost:
    """A host's shared memory, where agents are started and started again."""

    directory: Path
    running: list[RunningAgent] = field(default_factory=list)
    """Every agent that was ready once."""
    launched: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, node_id: str = "a", size: str = "32M", *options: str, **variables: str) -> RunningAgent:
        """A ready agent. AssertionError with what it said if it ends instead."""
        process = self.launch(node_id, size, *options, **variables)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            _, said = process.communicate(timeout=START_SECONDS)
            raise AssertionError(f"the agent ended with exit code {process.returncode}: {said}")
        self.running.append(RunningAgent(process, json.loads(line)))
        return self.running[-1]

    def restart(self, agent: RunningAgent, size: str = "32M", *options: str) -> RunningAgent:
        """The same node on the same port. The old process must be gone."""
        return self.start(str(agent.ready["node_id"]), size, "--port", str(agent.port), *options)

    def launch(
        self, node_id: str = "a", size: str = "32M", *options: str, **variables: str
    ) -> subprocess.Popen[str]:
        """An agent process that may fail to start; the caller waits for its end."""
        port = () if "--port" in options else ("--port", "0")
        command = [
            *(sys.executable, "-m", "kvcm_platform.mempool_agent", "--log-level", "ERROR"),
            *("--node-id", node_id, "--size", size, "--directory", str(self.directory), *port, *options),
        ]
        environ = {**os.environ, "KVCM_POOL_TOKEN": "", **variables}
        process = subprocess.Popen(
            command, cwd=ROOT, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.launched.append(process)
        return process

    def close(self) -> None:
        for process in self.launched:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.launched:
            try:
                process.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(START_SECONDS)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        shutil.rmtree(self.directory, ignore_errors=True)


@contextmanager
def agent_host() -> Iterator[AgentHost]:
    """Shared memory of its own for some agents; ends them all."""
    host = AgentHost(Path(tempfile.mkdtemp(prefix="kvcm-test-", dir="/dev/shm")))
    try:
        yield host
    finally:
        host.close()


def pool_spec(*agents: RunningAgent, timeout: int = 3000) -> dict[str, object]:
    """The spec of a tair_mempool storage over these agents."""
    return {
        "domain": ",".join(agent.address for agent in agents),
        "timeout": timeout,
        "enable_vipserver": False,
        "service_discovery_url": "",
        "media_type": 2,
    }


def spec_of(*agents: RunningAgent) -> PoolSpec:
    return PoolSpec.of(pool_spec(*agents))


def pool_storage(*agents: RunningAgent, name: str = "pool", number: int = 7) -> StorageEntry:
    """A storage of the registry whose segments are these agents', numbered from `number` + 1 on."""
    segments = tuple(
        PoolSegment(
            node_id=str(agent.ready["node_id"]),
            segment_id=agent.segment_id,
            number=number + 1 + index,
            address=agent.address,
            size_bytes=agent.size_bytes,
        )
        for index, agent in enumerate(agents)
    )
    return StorageEntry(name, number, StorageType.TAIR_MEMPOOL, pool_spec(*agents), segments=segments)


def pool_uri(
    offset: int, size: int, range_id: int | None = None, node_id: str = "a", name: str = "pool"
) -> str:
    """A range's URI; every call without an id names a later range."""
    range_id = next(_RANGE_IDS) if range_id is None else range_id
    return f"pace://{name}/{offset}?media_type=2&node_id={node_id}&range_id={range_id}&size={size}"
