"""A disk that fills up under an engine, with real processes: ENOSPC, and what everybody makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import redis

from apps.storages.conditions import storages_full
from apps.storages.models import Storage
from apps.storages.tasks import check_storages
from kvcm_platform.client import BlockingMetadataClient, Connection, QueryType
from kvcm_platform.core.registry import Quota, ReclaimSettings
from kvcm_platform.core.uris import MARKER, parse_uri
from kvcm_platform.duties.run import duties_run
from kvcm_platform.duties.session import index_session
from kvcm_platform.index import registry as index_registry
from kvcm_platform.index.recount import recount_group
from kvcm_platform.transfer import TransferError, Transfers
from tests.factories.objects import make_group, make_instance, make_storage
from tests.support.eventually import eventually
from tests.support.metadata_process import metadata_process
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.valkey import ValkeyServer

pytestmark = pytest.mark.django_db(transaction=True)
BEFORE, DURING, ELSEWHERE, AFTER = (list(range(at, at + 8)) for at in (100, 200, 300, 400))


@dataclass
class Engine:
    client: BlockingMetadataClient
    transfers: Transfers

    def write(self, keys: list[int]) -> list[bool]:
        """A whole write; which blocks were written."""
        started = self.client.start_write("model-a", keys)
        parts = [[spec.uri for spec in location.specs] for location in started.locations]
        flat = [(uri, bytes([at + 1]) * 1024) for at, uris in enumerate(parts) for uri in uris]
        results = iter(self.transfers.write_batch(flat))
        written = [[next(results) for _ in uris] == [None] * len(uris) for uris in parts]
        self.client.finish_write("model-a", started.session_id, written)
        return written

    def place_of(self, keys: list[int]) -> str:
        """The storage of a new write, which is not carried out."""
        started = self.client.start_write("model-a", keys)
        self.client.finish_write("model-a", started.session_id, [False] * len(started.locations))
        (name,) = {parse_uri(spec.uri).storage for one in started.locations for spec in one.specs}
        return name

    def read(self, keys: list[int]) -> tuple[set[str], list[bytes | TransferError]]:
        """The storages of the matched prefix, and its bytes."""
        found = self.client.get_cache_location("model-a", keys, query_type=QueryType.PREFIX_MATCH)
        uris = [spec.uri for location in found for spec in location.specs]
        return {parse_uri(uri).storage for uri in uris}, self.transfers.read_batch(uris)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as made:
        yield made


@pytest.fixture
def engine(
    index: redis.Redis, empty_valkey: ValkeyServer, disk: SmallDisk, tmp_path: Path
) -> Iterator[Engine]:
    make_storage(disk.path, "small")
    make_storage(tmp_path, "large")
    reclaim = ReclaimSettings(delay_before_delete_ms=0)
    make_group(storage_candidates=("small", "large"), quota=Quota(1 << 40), reclaim=reclaim)
    make_instance()
    entries = [storage.entry() for storage in Storage.objects.all()]
    with (
        metadata_process(empty_valkey.url, tmp_path / "data") as process,
        BlockingMetadataClient(Connection(process.rpc, timeout_seconds=5)) as client,
        Transfers.from_entries(entries) as transfers,
    ):
        yield Engine(client, transfers)


def files_of(root: Path) -> set[Path]:
    return {path for path in root.rglob("*") if path.is_file() and path.name != MARKER}


def entry(index: redis.Redis, name: str = "small"):
    return index_registry.read(index).storages[name]


async def tidy_up(url: str, client: redis.Redis) -> tuple[int, bool]:
    """Carries all deletions out, second passes too; (used bytes of the group, whether anything drifted)."""
    for _ in range(3):
        for due in client.scan_iter(match="{*:*}:d"):
            client.zadd(due, dict.fromkeys(client.zrange(due, 0, -1), 0))
        async with index_session(url) as session:
            report = await duties_run(session, seconds=10)
            assert report.failures == 0
    async with index_session(url) as session:
        (group,) = session.registry.groups.values()
        instances = partial(session.instances_in, group.number)
        count = await recount_group(session.index, group.name, group.number, instances, repair=False)
        return count.used, count.has_drift


def test_a_disk_fills_up_under_an_engine(
    engine: Engine, disk: SmallDisk, index: redis.Redis, empty_valkey: ValkeyServer
) -> None:
    assert engine.write(BEFORE) == [True] * 8
    kept = files_of(disk.path / "small")
    disk.fill()

    # Nobody has checked yet: the write goes there and fails for real, and the engine says so.
    assert engine.write(DURING) == [False] * 8
    assert engine.read(DURING) == (set(), [])
    assert engine.read(BEFORE) == ({"small"}, [bytes([at + 1]) * 1024 for at in range(8) for _ in range(2)])

    check_storages()
    full = entry(index)
    assert (full.is_served, full.is_writable, full.is_full) == (True, False, True)
    assert "No space left on device" in full.refusal
    (finding,) = storages_full({})
    assert "small takes no new blocks" in finding.message
    eventually(lambda: engine.place_of([900]) == "large")
    assert engine.write(ELSEWHERE) == [True] * 8
    assert engine.read(ELSEWHERE)[0] == {"large"}
    assert engine.read(BEFORE)[0] == {"small"}, "what is full is read"

    used, has_drift = asyncio.run(tidy_up(empty_valkey.url, index))
    assert (used, has_drift) == (16 * 2048, False)
    assert files_of(disk.path / "small") == kept, "the failed write left nothing, and took nothing with it"

    disk.make_room()
    check_storages()
    assert entry(index).is_writable
    assert list(storages_full({})) == []
    eventually(lambda: engine.place_of([901]) == "small")
    assert engine.write(AFTER) == [True] * 8
    assert engine.read(AFTER)[0] == {"small"}
