"""A metadata service without a door, over a real Valkey, for tests of the data plane's rules."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import redis

from kvcm_platform.core.admission import Admission
from kvcm_platform.core.masks import Mask
from kvcm_platform.core.metadata import MetadataService
from kvcm_platform.core.ports import RequestTap
from kvcm_platform.core.registry import (
    VALUE_DTYPE,
    VALUE_MODEL,
    VALUE_SPEC,
    Entry,
    GroupEntry,
    InstanceEntry,
    LocationSpecGroup,
    LocationSpecInfo,
    MetaIndexerSettings,
    ModelDeployment,
    Quota,
    ReclaimSettings,
    StorageEntry,
)
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.use_cases import Blocks, Limits
from kvcm_platform.core.writes import StartedWrite
from kvcm_platform.duties.run import DutiesReport, duties_run
from kvcm_platform.duties.session import IndexSession
from kvcm_platform.index import codec, keyspace, leaving, registry
from kvcm_platform.index.connecting import connection_to
from kvcm_platform.index.connection import Connection
from kvcm_platform.index.facts import FactsBuffer
from kvcm_platform.index.local.connection import LocalConnection
from kvcm_platform.index.permits import RedisPermits
from kvcm_platform.index.placed import PlacedConnection
from kvcm_platform.index.records import WireRecords
from kvcm_platform.index.recount import GroupCount, recount_group
from kvcm_platform.index.redis_index import RedisIndex
from kvcm_platform.index.registry_mirror import RegistryMirror
from kvcm_platform.index.search_cache import SearchCache
from kvcm_platform.metadata_service.access import MetaAccess
from kvcm_platform.metadata_service.file_preparer import DirectoryFiles
from kvcm_platform.metadata_service.kv_handlers import KvHandlers
from kvcm_platform.metadata_service.limits import DoorLimits
from kvcm_platform.metadata_service.meta_handlers import Endpoint, MetaHandlers
from kvcm_platform.metadata_service.registration import Registrar
from kvcm_platform.pb import meta_service_pb2 as pb
from tests.support.local_client import LocalClient

UNLIMITED = 1 << 50
VALUE_BYTES = 1024


def storage(root: Path | str = "/tmp/nfs/", **changes: Any) -> StorageEntry:
    slots = changes.pop("slots", 8)
    plain = StorageEntry(
        "nfs_01", 1, StorageType.NFS, {"root_path": f"{str(root).rstrip('/')}/", "key_count_per_file": slots}
    )
    return replace(plain, **changes)


def group(**changes: Any) -> GroupEntry:
    plain = GroupEntry(
        name="default",
        number=1,
        storage_candidates=("nfs_01",),
        quota=Quota(UNLIMITED),
        reclaim=ReclaimSettings(delay_before_delete_ms=0),
        meta_indexer=MetaIndexerSettings(max_key_count=10_000_000),
    )
    return replace(plain, **changes)


def instance(
    instance_id: str = "model-a",
    number: int = 0xABC,
    specs: Sequence[tuple[str, int]] = (("tp0", 1024),),
    groups: Sequence[tuple[str, Sequence[str]]] = (),
    **changes: Any,
) -> InstanceEntry:
    plain = InstanceEntry(
        instance_id=instance_id,
        number=number,
        group="default",
        group_number=1,
        block_size=4,
        location_spec_infos=tuple(LocationSpecInfo(name, size) for name, size in specs),
        location_spec_groups=tuple(LocationSpecGroup(name, tuple(names)) for name, names in groups),
        model_deployment=ModelDeployment("model", "fp8"),
    )
    return replace(plain, **changes)


def value_instance(instance_id: str = "values", number: int = 0xF00D, **changes: Any) -> InstanceEntry:
    """An instance of keys and values, of VALUE_BYTES at most."""
    return instance(
        instance_id,
        number,
        specs=[(VALUE_SPEC, VALUE_BYTES)],
        **{"block_size": 1, "model_deployment": ModelDeployment(VALUE_MODEL, VALUE_DTYPE), **changes},
    )


@dataclass(frozen=True)
class Found:
    """A location as a client sees it."""

    type: int
    spec_size: int
    specs: tuple[tuple[str, str], ...]

    @property
    def uri(self) -> str:
        return self.specs[0][1]


def found(wire: bytes) -> Found:
    message = codec.parse_location(wire)
    return Found(message.type, message.spec_size, tuple((s.name, s.uri) for s in message.location_specs))


def found_all(pieces: Sequence[bytes]) -> list[Found]:
    """Locations of an answer that comes in pieces of one or more."""
    answer = pb.GetCacheLocationResponse.FromString(b"".join(pieces))
    return [
        Found(one.type, one.spec_size, tuple((s.name, s.uri) for s in one.location_specs))
        for one in answer.locations
    ]


@dataclass
class DataPlane:
    """One process's stack. Several may share a server, as metadata processes do."""

    service: MetadataService
    index: RedisIndex
    cache: SearchCache
    mirror: RegistryMirror
    client: redis.Redis
    facts: FactsBuffer

    def publish(self, version: int, *entries: Entry, removed: Iterable[tuple[str, str]] = ()) -> None:
        registry.publish(self.client, version=version, changed=entries, removed=removed)

    async def start(
        self,
        keys: Sequence[int],
        instance_id: str = "model-a",
        timeout: int = 30,
        groups: Sequence[str] = (),
        replicas: int = 0,
    ) -> StartedWrite:
        return await self.service.start_write(instance_id, Blocks(keys, ()), groups, timeout, replicas)

    async def finish(self, started: StartedWrite, mask: Mask, instance_id: str = "model-a") -> None:
        await self.service.finish_write(instance_id, started.session_id, mask)

    async def write(
        self,
        keys: Sequence[int],
        instance_id: str = "model-a",
        groups: Sequence[str] = (),
        replicas: int = 0,
    ) -> StartedWrite:
        started = await self.start(keys, instance_id, groups=groups, replicas=replicas)
        await self.finish(started, len(started.locations), instance_id)
        return started

    async def match(
        self,
        keys: Sequence[int],
        query: int = 2,
        mask: Mask = None,
        sw_size: int = 0,
        names: Sequence[str] = (),
        instance_id: str = "model-a",
    ) -> list[Found]:
        wires = await self.service.get_cache_location(
            instance_id, query, Blocks(keys, ()), mask, sw_size, names
        )
        return found_all(wires)

    async def statuses(self, keys: Sequence[int], instance_id: str = "model-a") -> list[str]:
        metas = await self.service.get_cache_meta(instance_id, Blocks(keys, ()), None)
        return [meta.status.name for meta in metas]

    def make_due(self) -> None:
        """All pending deletions, second passes included, become due now, and no storage is left alone."""
        for base in self.client.scan_iter(match="{st:*}"):
            self.client.hdel(base, "d:failures", "d:until")
        for due in self.client.scan_iter(match="{*:*}:d"):
            self.client.zadd(due, dict.fromkeys(self.client.zrange(due, 0, -1), 0))

    async def session(self) -> IndexSession:
        await self.mirror.refresh()
        gone = leaving.decode(await self.index.connection.call("HGETALL", keyspace.LEAVING))
        return IndexSession(self.index, self.mirror.current, tuple(gone), read_again=self.session)

    async def duties(self, *, registry_version: int | None = None) -> DutiesReport:
        return await duties_run(await self.session(), registry_version=registry_version)

    async def recount(self, *, repair: bool = False) -> GroupCount:
        session = await self.session()
        return await recount_group(self.index, "default", 1, partial(session.instances_in, 1), repair=repair)


def own(plane: DataPlane) -> Connection:
    """The connection to the platform's own server, whatever groups have one of theirs."""
    return plane.index.connection.server_of(keyspace.GENERATION)


@asynccontextmanager
async def data_plane(
    url: str,
    client: redis.Redis,
    *entries: Entry,
    limits: Limits | None = None,
    cache_bytes: int = 64 << 20,
    is_strict: bool = True,
    touch_seconds: float = 5.0,
    tap: RequestTap | None = None,
    make_index: Callable[[Any, RegistryMirror], RedisIndex] = lambda connection, _: RedisIndex(connection),
) -> AsyncIterator[DataPlane]:
    """Connects a stack; entries are published first, by default one of each kind."""
    platform = connection_to(url)
    mirror = RegistryMirror(platform, url)
    connection: Connection = PlacedConnection(platform, lambda: mirror.places, connection_to)
    if isinstance(client, LocalClient):
        connection = LocalConnection(client.server, connection)
    registry.ensure_functions(client)
    if entries:
        registry.publish(client, version=1, changed=entries)
    await connection.connect()
    await mirror.refresh()
    index = make_index(connection, mirror)
    facts = FactsBuffer("test")
    cache = SearchCache(index, cache_bytes, is_strict=is_strict)
    admission = Admission(RedisPermits(connection), facts)
    files = DirectoryFiles(touch_seconds)
    service = MetadataService(
        index, cache, WireRecords(), mirror, facts, admission, limits, files=files, tap=tap
    )
    try:
        yield DataPlane(service, index, cache, mirror, client, facts)
    finally:
        await connection.close()


def handlers_of(plane: DataPlane, access: MetaAccess, control: Any = None) -> MetaHandlers:
    """The doors' handlers over a stack. `control` stands for ControlLink."""
    registrar = Registrar(plane.mirror, control)
    kv = KvHandlers(plane.service, plane.mirror, registrar, VALUE_BYTES)
    endpoint = Endpoint("node", "host", 1, 2)
    return MetaHandlers(
        *(plane.service, plane.mirror, registrar, kv, plane.facts, access, endpoint), DoorLimits()
    )
