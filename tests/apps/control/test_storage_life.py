"""The life of a storage with an engine at work: it is lost and found, drained, removed with its blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
import redis

from apps.cache_index.tasks import run_duties
from apps.common.actor import Role
from apps.storages.models import Storage
from apps.storages.services import storage_abandon, storage_remove, storage_update
from apps.storages.tasks import check_storages
from kvcm_platform.client import BlockingMetadataClient, Connection
from kvcm_platform.core.uris import MARKER
from kvcm_platform.index import registry as index_registry
from tests.apps.control.conftest import Start
from tests.factories.actors import ADMIN, make_token
from tests.factories.objects import make_group, make_instance, make_storage
from tests.support.eventually import eventually
from tests.support.metadata_process import metadata_process
from tests.support.objects import write_blocks
from tests.support.valkey import ValkeyServer

KEYS = [1, 2, 3, 4]
MORE = [11, 12]


class Engine:
    def __init__(self, client: BlockingMetadataClient) -> None:
        self._client = client

    def write(self, keys: list[int]) -> None:
        write_blocks(self._client, "model-a", keys)

    def hits(self, keys: list[int]) -> int:
        return len(self._client.get_cache_location("model-a", keys))

    def where(self, keys: list[int]) -> set[str]:
        """The storages that its blocks come from."""
        found = self._client.get_cache_location("model-a", keys)
        return {spec.uri.split("/")[2] for location in found for spec in location.specs}


@contextmanager
def engine_at(valkey: ValkeyServer, folder: Path) -> Iterator[Engine]:
    with (
        metadata_process(valkey.url, folder) as started,
        BlockingMetadataClient(Connection(started.rpc, timeout_seconds=5)) as client,
    ):
        yield Engine(client)


def objects_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.name != MARKER]


@pytest.mark.django_db(transaction=True)
def test_it_is_lost_and_found_and_leaves_with_its_blocks(
    start_control: Start, index: redis.Redis, empty_valkey: ValkeyServer, tmp_path: Path
) -> None:
    start_control(make_token(Role.ADMIN))
    for name in ("a", "b"):
        make_storage(tmp_path, name)
    make_group(storage_candidates=("a", "b"))
    make_instance()
    with engine_at(empty_valkey, tmp_path) as engine:
        engine.write(KEYS)
        assert engine.where(KEYS) == {"a"}

        (tmp_path / "a").rename(tmp_path / "away")
        check_storages()
        eventually(lambda: engine.hits(KEYS) == 0)
        engine.write(MORE)
        assert engine.where(MORE) == {"b"}, "the next candidate takes over"
        (tmp_path / "away").rename(tmp_path / "a")
        check_storages()
        eventually(lambda: engine.hits(KEYS) == len(KEYS))

        storage_update(acting=ADMIN, name="a", settings={"is_draining": True})
        eventually(lambda: not index_registry.read(index).storages["a"].is_writable)
        fresh = count(21)
        eventually(lambda: _written_to(engine, [next(fresh)]) == {"b"})
        assert engine.hits(KEYS) == len(KEYS), "a drained one is still read"

        leaving = storage_remove(acting=ADMIN, name="a", is_forced=True)
        assert leaving is not None
        eventually(lambda: engine.hits(KEYS) == 0)
        eventually(lambda: run_duties() is not None and not objects_below(tmp_path / "a"), seconds=20)
        eventually(lambda: run_duties() is not None and _is_gone("a"), seconds=20)
        assert list(index_registry.read(index).storages) == ["b"]
        assert engine.hits(MORE) == len(MORE), "others keep theirs"


@pytest.mark.django_db(transaction=True)
def test_one_that_does_not_answer_leaves_once_it_is_given_up(
    start_control: Start, index: redis.Redis, empty_valkey: ValkeyServer, tmp_path: Path
) -> None:
    start_control(make_token(Role.ADMIN))
    make_storage(tmp_path, "a")
    make_group(storage_candidates=("a",))
    make_instance()
    with engine_at(empty_valkey, tmp_path) as engine:
        engine.write(KEYS)
        (tmp_path / "a").rename(tmp_path / "away")
        check_storages()
        storage_remove(acting=ADMIN, name="a", is_forced=True)
        for _ in range(3):
            run_duties()
        assert not _is_gone("a"), "its objects may still be deleted when it answers"
        storage_abandon(acting=ADMIN, name="a")
        # A deletion that failed is tried again after some seconds.
        eventually(lambda: run_duties() is not None and _is_gone("a"), seconds=40)
    assert objects_below(tmp_path / "away"), "the objects are left where they are"


def _written_to(engine: Engine, keys: list[int]) -> set[str]:
    engine.write(keys)
    return engine.where(keys)


def _is_gone(name: str) -> bool:
    return not Storage.objects.filter(name=name).exists()
