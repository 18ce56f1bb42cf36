"""Two directory storages, `fast` (hf3fs) and `slow` (nfs), with real bytes, for tests of copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kvcm_platform.core import placement
from kvcm_platform.core.migration import CopyRequest
from kvcm_platform.core.registry import GroupEntry, InstanceEntry, MigrationPolicy, StorageEntry
from kvcm_platform.core.types import PreferStrategy, Retention, StorageType
from kvcm_platform.duties.copies import CopyRound
from kvcm_platform.duties.copy_bytes import CopyBytes
from kvcm_platform.duties.copy_waves import Migration, Progress, Tally
from kvcm_platform.duties.lease import copies_lease
from kvcm_platform.duties.session import IndexSession
from kvcm_platform.index import codec, copying, keyspace
from kvcm_platform.index.ages import AgeWalk, HeldBlock
from kvcm_platform.index.redis_index import RedisIndex
from kvcm_platform.index.stats import parse_usage
from kvcm_platform.storage import marker
from kvcm_platform.transfer import BlockPattern, TransferError, Transfers
from tests.support.data_plane import DataPlane, data_plane, found, group, instance, storage

BLOCK = 1024
FAST, SLOW = 1, 2
PREFERRED = {
    StorageType.HF3FS: PreferStrategy.PREFER_3FS,
    StorageType.NFS: PreferStrategy.PREFER_NFS,
    StorageType.TAIR_MEMPOOL: PreferStrategy.PREFER_TAIR_MEMPOOL,
    StorageType.MOONCAKE: PreferStrategy.PREFER_MOONCAKE,
}


async def go_on(_: Migration, __: Tally) -> bool:
    return True


def host_of(uri: str) -> str:
    """The name of the storage of a URI."""
    return uri.partition("://")[2].partition("/")[0]


@dataclass
class Tiers:
    """A data plane over both, one instance `model-a` whose blocks an engine writes to `fast`."""

    plane: DataPlane
    root: Path
    group: GroupEntry
    entries: dict[str, StorageEntry]
    instance: InstanceEntry
    version: int = 1
    _transfers: tuple[tuple[StorageEntry, ...], Transfers] | None = None

    @property
    def index(self) -> RedisIndex:
        return self.plane.index

    def publish(self, *entries: Any) -> None:
        self.version += 1
        self.plane.publish(self.version, *entries)

    def set_policy(self, *, capacity: int | None = None, quota: Any = None, **policy: Any) -> None:
        self.group = replace(
            self.group,
            migration=MigrationPolicy("fast", "slow", **policy),
            quota=quota or self.group.quota,
        )
        self.entries["fast"] = replace(self.entries["fast"], capacity_bytes=capacity)
        self.publish(self.group, self.entries["fast"])

    async def refresh(self) -> None:
        await self.plane.mirror.refresh()
        self.index.recency.count_for(self.plane.mirror.current)

    async def write(self, keys: Iterable[int], groups: Sequence[str] = ()) -> None:
        """An engine's write, with bytes."""
        await self.refresh()
        wanted = list(keys)
        started = await self.plane.start(wanted, groups=groups)
        pattern, blocks = self.pattern(), []
        offset = started.mask if isinstance(started.mask, int) else None
        missing = (
            wanted[offset:]
            if offset is not None
            else [key for key, is_there in zip(wanted, started.mask, strict=True) if not is_there]
        )
        for key, wire in zip(missing, started.locations, strict=True):
            blocks += [(uri, pattern[name].block(key)) for name, uri in found(wire).specs]
        assert self.transfers().write_batch(blocks) == [None] * len(blocks)
        await self.plane.finish(started, len(started.locations))
        await self.index.pusher.flush()

    def pattern(self) -> dict[str, BlockPattern]:
        return {
            spec.name: BlockPattern(self.instance.instance_id, spec.name, spec.size)
            for spec in self.instance.location_spec_infos
        }

    def transfers(self) -> Transfers:
        """One for all: that of a Mooncake store is a process of its own."""
        entries = tuple(self.entries.values())
        if self._transfers is None or self._transfers[0] != entries:
            self.close()
            self._transfers = entries, Transfers.from_entries(entries)
        return self._transfers[1]

    def close(self) -> None:
        if self._transfers is not None:
            self._transfers[1].close()
            self._transfers = None

    async def touch(self, keys: Iterable[int]) -> None:
        await self.plane.match(list(keys))
        await self.index.recency.flush()

    async def use(self, keys: Iterable[int], times: int) -> None:
        await self.refresh()
        for _ in range(times):
            await self.plane.match(list(keys))
        await self.index.recency.flush()

    async def places(self, keys: Iterable[int]) -> dict[int, str]:
        """Key -> name of the storage it is served from; those that are not served are left out."""
        return {
            key: place.partition("://")[2].partition("/")[0] for key, place in (await self.uris(keys)).items()
        }

    async def uris(self, keys: Iterable[int]) -> dict[int, str]:
        wanted = list(keys)
        answers = await self.plane.match(wanted, query=1)
        return {key: one.uri for key, one in zip(wanted, answers, strict=True) if one.specs and one.uri}

    async def read(self, keys: Iterable[int]) -> dict[str, int]:
        """Storage -> number of blocks that it served. Wrong or missing bytes fail."""
        wanted = list(keys)
        uris = await self.uris(wanted)
        pattern = self.pattern()[self.instance.location_spec_infos[0].name]
        contents = self.transfers().read_batch(list(uris.values()))
        for key, content in zip(uris, contents, strict=True):
            assert not isinstance(content, TransferError), content
            assert content == pattern.block(key), f"block {key} has wrong bytes"
        return dict(Counter(host_of(uri) for uri in uris.values()))

    async def bytes_of(self, keys: Iterable[int]) -> dict[int, dict[str, bytes | TransferError]]:
        """Key -> what each part of the block holds, wherever it is served from."""
        wanted = list(keys)
        answers = await self.plane.match(wanted, query=1)
        return {
            key: {name: self.transfers().read_batch([uri])[0] for name, uri in one.specs if uri}
            for key, one in zip(wanted, answers, strict=True)
        }

    def held(self) -> dict[str, int]:
        """Served bytes of each storage by the shards' own figures."""
        totals = {"fast": 0, "slow": 0}
        for shard in range(self.instance.shards):
            raw = self.plane.client.hgetall(f"{{{self.instance.number:x}:{shard}}}")
            for (ref, state), (size, _) in parse_usage(raw).items():
                if state == "s":
                    totals["fast" if ref & 0xFFFF == FAST else "slow"] += size
        return totals

    def files(self, name: str) -> list[Path]:
        folder = self.root / name
        return [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".kvcm")]

    def request(self, id: str = "a", **changes: Any) -> CopyRequest:
        plain = CopyRequest(id, "default", "", "fast", "slow", Retention.DELETE_SOURCE)
        return replace(plain, **changes)

    async def session(self) -> IndexSession:
        return await self.plane.session()

    async def round(
        self, *requests: CopyRequest, seconds: float = 20.0, progress: Progress = go_on
    ) -> list[tuple[Migration, Tally]]:
        await self.index.pusher.flush()
        session = await self.session()
        async with copies_lease(session) as owner:
            assert owner, "another round has the lease"
            try:
                return await CopyRound(session, owner, seconds, progress).run(requests)
            finally:
                session.index.fence, session.index.duty = 0, ""
                await self.index.pusher.flush()

    async def copied(self, *requests: CopyRequest) -> dict[str, int]:
        """Blocks that a round copied, by what asked for it."""
        return {what.direction.value: tally.copied_blocks for what, tally in await self.round(*requests)}

    async def heat(self) -> int:
        """Runs whose uses are counted."""
        bases = [keyspace.instance(self.instance.number, shard) for shard in range(self.instance.shards)]
        counts = [await self.index.connection.call("ZCARD", keyspace.heat(base)) for base in bases]
        return sum(counts)

    async def blocks(self, keys: Iterable[int], name: str = "fast") -> list[HeldBlock]:
        wanted = set(keys)
        walk = AgeWalk(self.index, [self.instance], self.entries[name].numbers)
        return [block async for held in walk.runs(1 << 20) for block in held.blocks if block.key in wanted]

    async def open_copy(
        self,
        keys: Iterable[int],
        *,
        is_move: bool = True,
        timeout_ms: int = 60_000,
        blocks: Sequence[HeldBlock] | None = None,
    ) -> copying.OpenCopy:
        """`blocks`: as they were seen before; None = as they are now."""
        await self.refresh()
        registry = self.plane.mirror.current
        job = copying.CopyJob(
            *(self.instance, registry.groups["default"], registry.storages["slow"]),
            placement.serving(registry, registry.groups["default"]),
            *(is_move, 500, timeout_ms),
        )
        return await copying.open_copy(self.index, job, blocks or await self.blocks(keys))

    async def move_bytes(self, copy: copying.OpenCopy) -> None:
        pairs = [
            (uri, place[1])
            for block, places in zip(copy.blocks, copy.places, strict=True)
            for (_, uri), place in zip(block.location.specs(), places, strict=True)
        ]
        mover = CopyBytes(self.transfers())
        assert not any(await mover.move("fast", "slow", pairs, is_verified=True))

    async def remove_from(self, name: str, keys: Iterable[int]) -> None:
        """The locations of these blocks on one storage alone are removed."""
        for block in await self.blocks(keys, name):
            await self.index.function(
                *("kvcm_remove", block.run.shard.base, "named", 500, 0, 0),
                *(codec.pack_keys([block.key]), "remove", block.location.location_id),
            )

    async def held_by_storage(self) -> dict[str, int]:
        """Served blocks of each storage, by the records."""
        walks = {
            name: AgeWalk(self.index, [self.instance], self.entries[name].numbers) for name in self.entries
        }
        return {
            name: sum([len(held.blocks) async for held in walk.runs(1 << 20)]) for name, walk in walks.items()
        }

    async def settle(self) -> None:
        """Everything that is pending is deleted, second passes included."""
        for _ in range(3):
            self.plane.make_due()
            await self.plane.duties()

    async def forget_source(self, keys: Sequence[int]) -> None:
        """Blocks are removed and their deletion is carried out at once."""
        await self.index.remove(self.instance, list(keys), 0)
        await self.settle()


@asynccontextmanager
async def tiers(
    url: str,
    client: Any,
    root: Path,
    shards: int,
    *,
    is_first: bool = True,
    fast: StorageEntry | None = None,
    slow: StorageEntry | None = None,
    **settings: Any,
) -> AsyncIterator[Tiers]:
    """`is_first`: the storages are made and published; else another process over the same ones.

    `fast` and `slow` may be storages of other types, of these names.
    """
    for name in ("fast", "slow") if is_first else ():
        (root / name).mkdir()
        marker.mark(str(root / name))
    fast = fast or StorageEntry(
        "fast",
        FAST,
        StorageType.HF3FS,
        {"cluster_name": "c", "mountpoint": str(root), "root_dir": "fast", "key_count_per_file": 8},
    )
    slow = slow or storage(root / "slow", name="slow", number=SLOW)
    one = instance(
        shards=shards, specs=settings.pop("specs", (("tp0", BLOCK),)), groups=settings.pop("groups", ())
    )
    both = group(storage_candidates=("fast", "slow"), prefer_strategy=PREFERRED[fast.type])
    entries = (fast, slow, both, one) if is_first else ()
    async with data_plane(url, client, *entries, **settings) as plane:
        built = Tiers(plane, root, both, {"fast": fast, "slow": slow}, one)
        try:
            yield built
        finally:
            built.close()
