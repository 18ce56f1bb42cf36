"""A real Valkey Cluster, and a server with a replica watched by Sentinels, on free loopback ports."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis

from kvcm_platform.index.slots import slot_of
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
    command: Sequence[str]
    is_stopped: bool = False

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None and not self.is_stopped

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
        self.is_stopped = True

    def cont(self) -> None:
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGCONT)
        self.is_stopped = False

    def start_again(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        wait_for_answer(self)

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
    return Node(port, process, redis.Redis(port=port, socket_timeout=5), command)


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

    def owner(self, key: str) -> Node:
        """The node that serves the key's slot by its own account; one that is stopped is not asked."""
        slot = slot_of(key)
        return next(node for node in self.nodes if node.is_running and _serves(node, slot))

    def replica_of(self, master: Node) -> Node:
        return next(
            node
            for node in self.nodes
            if node.is_running and node.client.info("replication").get("master_port") == master.port
        )

    def heal(self) -> None:
        """Starts what died again, former masters as replicas; returns when all is as it should be."""
        for node in self.nodes:
            node.cont()
            if node.process.poll() is not None:
                node.start_again()
        eventually(lambda: all(_knows_all(node, self) for node in self.nodes), seconds=20)
        eventually(lambda: all(_is_master(node) or _is_synced(node) for node in self.nodes), seconds=20)
        eventually(lambda: sum(map(_is_master, self.nodes)) == len(self.masters), seconds=20)

    def flush(self) -> None:
        for node in self.nodes:
            if _is_master(node):
                node.client.flushall()

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


def _is_master(node: Node) -> bool:
    return node.client.info("replication")["role"] == "master"


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


@dataclass
class Watched:
    """A master with one replica, and three Sentinels that agree by two."""

    master: Node
    replica: Node
    sentinels: list[Node]

    @property
    def url(self) -> str:
        return "redis+sentinel://" + ",".join(node.address for node in self.sentinels) + "/index"

    def close(self) -> None:
        for node in (self.master, self.replica, *self.sentinels):
            node.close()


@contextmanager
def watched_by_sentinels() -> Iterator[Watched]:
    with tempfile.TemporaryDirectory(prefix="kvcm-s-", dir="/tmp") as name:
        folder = Path(name)
        ports = free_ports(5)
        master = start_node(folder, ports[0])
        replica = start_node(folder, ports[1], "--replicaof", "127.0.0.1", str(ports[0]))
        watched = Watched(master, replica, [])
        try:
            for node in (master, replica):
                wait_for_answer(node)
            eventually(lambda: _is_synced(replica), seconds=20)
            watched.sentinels += [_start_sentinel(folder, port, master.port) for port in ports[2:]]
            for sentinel in watched.sentinels:
                wait_for_answer(sentinel)
            eventually(lambda: all(_sees_all(node) for node in watched.sentinels), seconds=20)
            yield watched
        finally:
            watched.close()


def _start_sentinel(folder: Path, port: int, master_port: int) -> Node:
    configuration = folder / f"sentinel-{port}.conf"
    lines = [
        f"port {port}\nbind 127.0.0.1\ndir {folder}\nprotected-mode no",
        f"sentinel monitor index 127.0.0.1 {master_port} 2",
        f"sentinel down-after-milliseconds index {NODE_TIMEOUT_MS}",
        "sentinel failover-timeout index 5000",
    ]
    configuration.write_text("\n".join(lines) + "\n")
    command = [str(server_binary()), str(configuration), "--sentinel"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    return Node(port, process, redis.Redis(port=port, socket_timeout=5), command)


def _sees_all(sentinel: Node) -> bool:
    """The replica and the two other Sentinels."""
    state = sentinel.client.execute_command("SENTINEL", "MASTER", "index")
    flat = state if isinstance(state, dict) else dict(zip(state[::2], state[1::2], strict=True))
    text = {_plain(key): _plain(value) for key, value in flat.items()}
    return text.get("num-slaves") == "1" and text.get("num-other-sentinels") == "2"


def _plain(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
