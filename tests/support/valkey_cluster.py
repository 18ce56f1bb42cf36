"""A real Valkey Cluster, and a server with a replica watched by Sentinels, on free loopback ports."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis

from tests.support.eventually import eventually
from tests.support.platform_process import free_ports
from tests.support.valkey import server_binary

SLOTS = 16384
NODE_TIMEOUT_MS = 1000
"""A node that is silent for this long is voted out; its replica takes over about as long after."""


@dataclass
class Node:
    """One server process on loopback. `stop` and `cont` are SIGSTOP and SIGCONT."""

    port: int
    process: subprocess.Popen[bytes]
    client: redis.Redis
    options: Sequence[str] = ()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def id(self) -> str:
        return self.client.execute_command("CLUSTER", "MYID").decode()

    def kill(self) -> None:
        self.cont()
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def cont(self) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGCONT)

    def close(self) -> None:
        self.client.close()
        self.kill()


def start_node(directory: Path, port: int, *options: str) -> Node:
    folder = directory / str(port)
    folder.mkdir(exist_ok=True)
    command = [
        *(str(server_binary()), "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)),
        *("--save", "", "--appendonly", "yes", "--maxmemory-policy", "noeviction"),
        *("--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"),
        *options,
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    return Node(port, process, redis.Redis(port=port, socket_timeout=5), options)


def wait_for_answer(node: Node) -> None:
    def answers() -> bool:
        assert node.process.poll() is None, f"the server on port {node.port} ended"
        try:
            return bool(node.client.ping())
        except redis.RedisError:
            return False

    eventually(answers, seconds=20)


@dataclass
class ValkeyCluster:
    """Masters that share the slots evenly, and the replicas that a test asked for."""

    directory: Path
    masters: list[Node]
    replicas: list[Node] = field(default_factory=list)

    @property
    def nodes(self) -> list[Node]:
        return [*self.masters, *self.replicas]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(node.address for node in self.masters)

    def client(self) -> redis.RedisCluster:
        return redis.RedisCluster(host="127.0.0.1", port=self.masters[0].port)

    def flush(self) -> None:
        for node in self.masters:
            node.client.flushall()

    def owner(self, key: str) -> Node:
        """The node that serves the key's slot by its own account."""
        slot = self.masters[0].client.execute_command("CLUSTER", "KEYSLOT", key)
        return next(node for node in self.nodes if node.process.poll() is None and _serves(node, slot))

    def join(self) -> Node:
        """One more master, without slots."""
        port, bus = free_ports(2)
        node = start_node(self.directory, port, *_cluster_options(bus))
        self.masters.append(node)
        wait_for_answer(node)
        node.client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", len(self.nodes))
        self.masters[0].client.execute_command("CLUSTER", "MEET", "127.0.0.1", port, bus)
        eventually(lambda: all(_knows_all(one, self) for one in self.nodes), seconds=20)
        return node

    def close(self) -> None:
        for node in self.nodes:
            node.close()


def move_slot(owner: Node, target: Node, slot: int) -> None:
    """Moves a slot as a whole; returns when the target serves it."""
    owner.client.execute_command("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target.id)
    eventually(lambda: _serves(target, slot), seconds=20)
    eventually(lambda: not _serves(owner, slot), seconds=20)


def _serves(node: Node, slot: int) -> bool:
    mine = node.id
    return any(
        first <= slot <= last and master[2].decode() == mine
        for first, last, master, *_ in node.client.execute_command("CLUSTER SLOTS", NEVER_DECODE=True)
    )


def _cluster_options(bus_port: int) -> list[str]:
    return [
        *("--cluster-enabled", "yes", "--cluster-port", str(bus_port)),
        *("--cluster-node-timeout", str(NODE_TIMEOUT_MS), "--cluster-replica-validity-factor", "0"),
        *("--cluster-allow-replica-migration", "no"),
    ]


@contextmanager
def valkey_cluster(masters: int = 3, replicas: int = 0, *options: str) -> Iterator[ValkeyCluster]:
    """`replicas` = how many of the masters, from the first one on, have a replica."""
    with tempfile.TemporaryDirectory(prefix="kvcm-c-", dir="/tmp") as name:
        ports = free_ports(2 * (masters + replicas))
        nodes = [
            start_node(Path(name), port, *_cluster_options(bus), *options)
            for port, bus in zip(ports[::2], ports[1::2], strict=True)
        ]
        cluster = ValkeyCluster(Path(name), nodes[:masters], nodes[masters:])
        try:
            _join(cluster, ports[1::2])
            yield cluster
        finally:
            cluster.close()


def _join(cluster: ValkeyCluster, bus_ports: Sequence[int]) -> None:
    count = len(cluster.masters)
    for node in cluster.nodes:
        wait_for_answer(node)
    for number, node in enumerate(cluster.masters):
        first, last = SLOTS * number // count, SLOTS * (number + 1) // count - 1
        node.client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        node.client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
    for node, bus in list(zip(cluster.nodes, bus_ports, strict=True))[1:]:
        cluster.masters[0].client.execute_command("CLUSTER", "MEET", "127.0.0.1", node.port, bus)
    eventually(lambda: all(_knows_all(node, cluster) for node in cluster.nodes), seconds=20)
    for master, replica in zip(cluster.masters, cluster.replicas, strict=False):
        replica.client.execute_command("CLUSTER", "REPLICATE", master.id)
    eventually(lambda: all(_is_synced(node) for node in cluster.replicas), seconds=20)


def _knows_all(node: Node, cluster: ValkeyCluster) -> bool:
    info = node.client.execute_command("CLUSTER INFO")
    text = info.decode() if isinstance(info, bytes) else str(info)
    return "cluster_state:ok" in text.replace("': '", ":") and _known(node) == len(cluster.nodes)


def _known(node: Node) -> int:
    lines = node.client.execute_command("CLUSTER NODES")
    return len([entry for entry in lines.values() if "handshake" not in entry["flags"]])


def _is_synced(node: Node) -> bool:
    return node.client.info("replication").get("master_link_status") == "up"


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[ValkeyCluster]:
    """Three masters for the whole run; `empty_cluster` for a test of its own."""
    with valkey_cluster() as cluster:
        yield cluster


@pytest.fixture
def empty_cluster(shared_cluster: ValkeyCluster) -> ValkeyCluster:
    shared_cluster.flush()
    return shared_cluster
