"""A Mooncake storage whose master stops answering, and one that comes back with an empty memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from apps.storages.models import Storage, StorageHealthChange
from apps.storages.services import storage_add, storage_try
from apps.storages.services.content import DROPPED_PAUSE_SECONDS
from apps.storages.tasks import check_storages
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.validation.storages import StorageSettings
from kvcm_platform.index.storage_checks import check_states
from kvcm_platform.storage.mooncake_clients import CLIENTS
from kvcm_platform.storage.probe import PROBE_SECONDS
from kvcm_platform.transfer import Transfers
from tests.apps.storages.looks import end_check, published
from tests.factories.actors import ADMIN
from tests.factories.objects import make_storage
from tests.support.eventually import eventually
from tests.support.mooncake import MooncakeMaster, running_mooncake

SMALL_BYTES = 32 << 20
PIECE = 1 << 20

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[MooncakeMaster]:
    with running_mooncake(tmp_path) as master:
        yield master
    CLIENTS.close()


def test_a_master_that_hangs_and_one_that_forgot(
    index: redis.Redis, master: MooncakeMaster, tmp_path: Path
) -> None:
    before = master.object_keys()
    trial = storage_try(acting=ADMIN, kind=StorageType.MOONCAKE, spec=master.spec)
    assert trial.is_ok, trial.message
    assert trial.capacity_bytes
    assert master.object_keys() == before, "a trial leaves nothing behind"
    make_storage(tmp_path, "good")
    storage = storage_add(
        acting=ADMIN,
        name="moon",
        kind=StorageType.MOONCAKE,
        spec=master.spec,
        settings=StorageSettings(),
    )
    assert storage.is_available, storage.health_message

    master.stop_answering()
    try:
        began = time.monotonic()
        assert check_storages()["unavailable"] == ["moon"], "out within one round"
        assert time.monotonic() - began < 2 * PROBE_SECONDS + 20
        assert published(index, "good").is_writable
    finally:
        master.go_on()
    eventually(lambda: check_storages()["unavailable"] == [], seconds=30)
    assert not StorageHealthChange.objects.filter(event="content_lost").exists()
    assert published(index, "moon").is_writable

    master.restart()
    eventually(lambda: check_storages() and _has_lost(), seconds=40)
    assert check_states(index, [storage.number])[storage.number].is_running, "its blocks are looked at"


def test_what_the_store_evicts_is_looked_for_soon(index: redis.Redis, tmp_path: Path) -> None:
    with running_mooncake(tmp_path, segment_bytes=SMALL_BYTES) as master:
        try:
            storage = storage_add(
                acting=ADMIN,
                name="moon",
                kind=StorageType.MOONCAKE,
                spec=master.spec,
                settings=StorageSettings(),
            )
            assert check_storages()["asked"] == ["moon"], "nobody knows what a new one holds"
            end_check(index, storage.number, ago_seconds=DROPPED_PAUSE_SECONDS)
            assert check_storages()["asked"] == []
            blocks = [(f"mooncake://moon/?key=a/tp0/{n:x}.1&size={PIECE}", bytes(PIECE)) for n in range(40)]
            with Transfers.from_entries([storage.entry()]) as transfers:
                transfers.write_batch(blocks)
            eventually(lambda: check_storages()["asked"] == ["moon"], seconds=20)
            assert check_states(index, [storage.number])[storage.number].is_running
            assert (Storage.objects.get().dropped_objects or 0) > 0
        finally:
            CLIENTS.close()


def _has_lost() -> bool:
    return StorageHealthChange.objects.filter(event="content_lost").exists()
