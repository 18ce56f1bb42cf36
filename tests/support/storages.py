"""One real storage of each type, for the suite that all backends must pass (tests/contract)."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from kvcm_platform.core.deletion import FreedSlots
from kvcm_platform.core.registry import LocationSpecInfo, StorageEntry
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.uris import build_uris, file_root
from kvcm_platform.core.validation.storages import check_storage_spec
from kvcm_platform.mempool_agent.slots import held_in
from kvcm_platform.storage import marker, mooncake_marker
from kvcm_platform.storage.backend import DataStorageBackend, Ledgers
from kvcm_platform.storage.mooncake_clients import CLIENTS
from kvcm_platform.storage.registry import KINDS
from kvcm_platform.transfer import Transfers
from kvcm_platform.transfer.pool_memory import SegmentMemory
from tests.support.hanging_mount import hanging_mount
from tests.support.mempool import AgentHost, RunningAgent, agent_host, pool_storage, pool_uri
from tests.support.mooncake import MooncakeMaster, running_mooncake

BLOCK = 8192
OWNER = "installation/bench"
_starts = count(1)
_range_ids = count(1)


class MemoryLedger:
    """What the platform notes of freed slots in Redis, as simply as it can be said."""

    def __init__(self) -> None:
        self.freed: dict[str, set[int]] = {}

    async def free(self, freed: Sequence[FreedSlots]) -> list[bool]:
        return [self._free(one) for one in freed]

    def _free(self, one: FreedSlots) -> bool:
        if one.is_second_pass and one.file not in self.freed:
            return True
        noted = self.freed.setdefault(one.file, set())
        noted.update(one.slots)
        return len(noted) == one.slots_in_file

    async def forget(self, files: Sequence[str]) -> None:
        for file in files:
            self.freed.pop(file, None)


@dataclass
class StorageBench:
    """A storage that works. `take_away` and `hang` make it fail as its type does; both can be undone."""

    entry: StorageEntry
    ledger: MemoryLedger = field(default_factory=MemoryLedger)

    def __post_init__(self) -> None:
        self.transfers = Transfers.from_entries([self.entry])

    @property
    def capabilities(self) -> Any:
        return KINDS[self.entry.type].capabilities

    def ledgers(self) -> Ledgers:
        return Ledgers(self.ledger)

    def backend(self) -> DataStorageBackend:
        return KINDS[self.entry.type].make(self.entry, self.ledgers())

    def places(self, number: int, *, instance_id: str = "model-a", size: int = BLOCK) -> list[str]:
        """Places of so many blocks of one new write."""
        specs = (LocationSpecInfo("tp0", size),)
        names = [f"{key:x}" for key in range(1, number + 1)]
        return build_uris(self.entry, instance_id, specs, names, f"{next(_starts):08d}")[0]

    def stored_names(self) -> set[str]:
        """Names of everything that lies on it, seen past the backend."""
        raise NotImplementedError

    def take_away(self) -> None:
        raise NotImplementedError

    def bring_back(self) -> None:
        raise NotImplementedError

    def hang(self) -> None:
        raise NotImplementedError

    def go_on(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.transfers.close()


class DirectoryBench(StorageBench):
    @property
    def root(self) -> Path:
        return Path(file_root(self.entry))

    def stored_names(self) -> set[str]:
        return {str(path) for path in self.root.rglob("*") if path.is_file() and path.name != marker.MARKER}

    def take_away(self) -> None:
        """As if unmounted: an empty folder is left in its place."""
        self.root.rename(self._aside)
        self.root.mkdir()

    def bring_back(self) -> None:
        self.root.rmdir()
        self._aside.rename(self.root)

    @property
    def _aside(self) -> Path:
        return self.root.with_name(f"{self.root.name}-aside")


class ListeningBench(DirectoryBench):
    """Its directory stays; who listens for connections goes."""

    listener: socket.socket

    def take_away(self) -> None:
        self.listener.close()

    def bring_back(self) -> None:
        self.listener = listening(int(self.entry.spec["remote_port"]))


class MooncakeBench(StorageBench):
    """A store of its own: it loses its master."""

    master: MooncakeMaster

    def stored_names(self) -> set[str]:
        return self.master.object_keys() - {mooncake_marker.KEY}

    def take_away(self) -> None:
        self.master.kill()

    def bring_back(self) -> None:
        self.master.start()

    def hang(self) -> None:
        self.master.stop_answering()

    def go_on(self) -> None:
        self.master.go_on()


def listening(port: int = 0) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    return listener


def _entry(kind: StorageType, **spec: Any) -> StorageEntry:
    return StorageEntry("bench", 7, kind, check_storage_spec(kind, spec))


def _spec(kind: StorageType, folder: Path, per_file: int) -> dict[str, Any]:
    if kind in {StorageType.NFS, StorageType.DUMMY}:
        return {"root_path": f"{folder}/kv", "key_count_per_file": per_file}
    return {"mountpoint": str(folder), "root_dir": "kv", "key_count_per_file": per_file}


def _remote(listener: socket.socket) -> dict[str, Any]:
    port = listener.getsockname()[1]
    return {"remote_host": "127.0.0.1", "remote_port": port, "meta_storage_uri": "redis://127.0.0.1/0"}


def _directory(kind: StorageType, per_file: int) -> Callable[[Path], AbstractContextManager[StorageBench]]:
    @contextmanager
    def made(folder: Path) -> Iterator[StorageBench]:
        bench = DirectoryBench(_entry(kind, **_spec(kind, folder, per_file)))
        try:
            yield bench
        finally:
            bench.close()

    return made


@contextmanager
def _vcns(folder: Path) -> Iterator[StorageBench]:
    listener = listening()
    kind = StorageType.VCNS_HF3FS
    bench = ListeningBench(_entry(kind, **_spec(kind, folder, 4), **_remote(listener)))
    bench.listener = listener
    try:
        yield bench
    finally:
        bench.listener.close()
        bench.close()


class PoolBench(StorageBench):
    """Two nodes; what lies there is read from their memory."""

    host: AgentHost
    agents: list[RunningAgent]

    @classmethod
    def started(cls, host: AgentHost) -> PoolBench:
        agents = [host.start(node) for node in "ab"]
        bench = cls(pool_storage(*agents, name="bench"))
        bench.host, bench.agents = host, agents
        return bench

    def places(self, number: int, *, instance_id: str = "model-a", size: int = BLOCK) -> list[str]:
        ids = [next(_range_ids) for _ in range(number)]
        return [pool_uri(at * size, size, at, node_id="ab"[at % 2], name="bench") for at in ids]

    def stored_names(self) -> set[str]:
        memories = [(agent, SegmentMemory.map(str(agent.path))) for agent in self.agents]
        return {
            f"{agent.ready['node_id']}:{held.range_id}"
            for agent, memory in memories
            for slab in range(memory.layout.slabs)
            for held in held_in(memory, slab)
        }

    def take_away(self) -> None:
        for agent in self.agents:
            agent.kill()

    def bring_back(self) -> None:
        self.agents = [self.host.restart(agent) for agent in self.agents]

    def hang(self) -> None:
        for agent in self.agents:
            agent.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        for agent in self.agents:
            agent.process.send_signal(signal.SIGCONT)


@contextmanager
def _pool(folder: Path) -> Iterator[StorageBench]:
    with agent_host() as host:
        bench = PoolBench.started(host)
        try:
            yield bench
        finally:
            bench.go_on()
            bench.close()


@contextmanager
def _mooncake(folder: Path) -> Iterator[StorageBench]:
    with running_mooncake(folder) as master:
        bench = MooncakeBench(_entry(StorageType.MOONCAKE, **master.spec))
        bench.master = master
        try:
            yield bench
        finally:
            bench.close()
            CLIENTS.close()


BENCHES: dict[str, Callable[[Path], AbstractContextManager[StorageBench]]] = {
    "nfs": _directory(StorageType.NFS, 4),
    "nfs, a file a block": _directory(StorageType.NFS, 1),
    "hf3fs": _directory(StorageType.HF3FS, 4),
    "vcns_hf3fs": _vcns,
    "dummy": _directory(StorageType.DUMMY, 4),
    "tair_mempool": _pool,
    "mooncake": _mooncake,
}


@contextmanager
def _hanging_directory(kind: StorageType, folder: Path) -> Iterator[StorageBench]:
    with hanging_mount(folder) as mount, listening() as listener:
        spec = _spec(kind, mount.path, 4)
        if kind is StorageType.VCNS_HF3FS:
            spec |= {
                "remote_host": "127.0.0.1",
                "remote_port": listener.getsockname()[1],
                "meta_storage_uri": "m",
            }
        bench = DirectoryBench(_entry(kind, **spec))
        bench.hang, bench.go_on = mount.hang, mount.go_on  # type: ignore[method-assign]
        try:
            yield bench
        finally:
            mount.go_on()
            bench.close()


def _hanging(kind: StorageType) -> Callable[[Path], AbstractContextManager[StorageBench]]:
    return lambda folder: _hanging_directory(kind, folder)


HANGING: dict[str, Callable[[Path], AbstractContextManager[StorageBench]]] = {
    kind.value: _hanging(kind)
    for kind in (StorageType.NFS, StorageType.HF3FS, StorageType.VCNS_HF3FS, StorageType.DUMMY)
} | {"mooncake": _mooncake, "tair_mempool": _pool}
"""Storages that can be made to hang; mounts need a file system of their own for that."""
