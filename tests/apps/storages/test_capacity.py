"""Storages with a capacity, full devices, and how often their room is published."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from django.utils import timezone

from apps.storages.models import Storage, StorageIncident
from apps.storages.services import CheckedStorage, checks_note, storage_update
from apps.storages.tasks import check_storages
from kvcm_platform.core.health import HealthLimits
from kvcm_platform.index import keyspace
from kvcm_platform.index import registry as index_registry
from kvcm_platform.index.stats import StorageUsage
from kvcm_platform.storage.backend import ProbeResult
from tests.apps.storages.looks import check, occupy, published, vacate
from tests.factories.actors import ADMIN
from tests.factories.objects import make_storage
from tests.support.small_disk import SmallDisk, small_disk

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A file system of 4 MiB."""
    with small_disk(tmp_path / "disk") as made:
        yield made


def test_it_turns_at_its_high_watermark_and_back_below_the_low_one(
    index: redis.Redis, tmp_path: Path
) -> None:
    storage = make_storage(tmp_path, capacity_bytes=10_000, high_watermark_ratio=0.8, low_watermark_ratio=0.5)
    said = []
    for used in (7999, 8000, 9000, 5000, 4999, 7000):
        check("nfs_a", True, usages={storage.number: StorageUsage(used_bytes=used, blocks=1)})
        entry = published(index)
        said.append((entry.is_served, entry.is_writable))
    open_, full = (True, True), (True, False)
    assert said == [open_, full, full, full, open_, open_]
    (incident,) = StorageIncident.objects.all()
    assert incident.kind == "full"
    assert "7.81 KiB of 9.77 KiB of its capacity" in incident.reason
    assert incident.ended_at is not None


def test_the_index_away_changes_nothing(index: redis.Redis, tmp_path: Path) -> None:
    storage = make_storage(tmp_path, capacity_bytes=10_000)
    check("nfs_a", True, usages={storage.number: StorageUsage(used_bytes=10_000)})
    assert published(index).is_full
    check("nfs_a", True, usages=None)
    assert published(index).is_full
    assert "9.77 KiB of 9.77 KiB" in published(index).refusal
    storage_update(acting=ADMIN, name="nfs_a", settings={"capacity_bytes": None})
    check("nfs_a", True, usages=None)
    assert published(index).is_writable


def test_the_checks_read_the_index(index: redis.Redis, tmp_path: Path) -> None:
    storage = make_storage(tmp_path, capacity_bytes=8192)
    occupy(index, storage, 8192)
    check_storages()
    entry = published(index)
    assert (entry.is_served, entry.is_writable, entry.free_bytes) == (True, False, 0)
    vacate(index)
    check_storages()
    assert published(index).is_writable


def test_a_full_device_leaves_placement_and_stays_readable(index: redis.Redis, disk: SmallDisk) -> None:
    make_storage(disk.path)
    disk.fill()
    check_storages()
    entry = published(index)
    assert (entry.is_served, entry.is_writable) == (True, False)
    assert "No space left on device" in entry.refusal
    assert StorageIncident.objects.get().kind == "full"
    disk.make_room()
    check_storages()
    assert published(index).is_writable


def test_the_watermark_holds_for_the_device_too(index: redis.Redis, disk: SmallDisk) -> None:
    make_storage(disk.path, high_watermark_ratio=0.5)
    (disk.path / "filler").write_bytes(b"x" * (3 << 20))
    check_storages()
    assert "of its device are used" in published(index).refusal


def woken(index: redis.Redis) -> list[dict[bytes, bytes]]:
    """What the checks told since the last look."""
    entries = [fields for _, fields in index.xrange(keyspace.WAKE)]
    index.delete(keyspace.WAKE)
    return entries


def test_at_its_high_mark_groups_are_to_give_back(index: redis.Redis, tmp_path: Path) -> None:
    """80 % of 10,000; what waits for its deletion makes it full, and is not asked for again."""
    storage = make_storage(tmp_path, capacity_bytes=10_000, high_watermark_ratio=0.8, low_watermark_ratio=0.5)
    told = [{b"reason": b"storage", b"storage": b"nfs_a"}]
    for used, pending, expected in ((7999, 0, []), (8000, 0, told), (8000, 1, []), (9000, 900, told)):
        usage = StorageUsage(used_bytes=used, pending_bytes=pending)
        check("nfs_a", True, usages={storage.number: usage})
        assert woken(index) == expected
        entry = published(index)
        assert (entry.high_bytes, entry.low_bytes) == (8000, 4999)
    check("nfs_a", True, usages=None)
    assert woken(index) == []
    assert published(index).high_bytes == 8000, "what the index said last still counts"
    storage_update(acting=ADMIN, name="nfs_a", settings={"capacity_bytes": 5000})
    check("nfs_a", True, usages={storage.number: StorageUsage(used_bytes=4000)})
    assert (published(index).high_bytes, published(index).low_bytes, woken(index)) == (4000, 2499, told)
    storage_update(acting=ADMIN, name="nfs_a", settings={"capacity_bytes": None})
    check("nfs_a", True, usages={storage.number: StorageUsage(used_bytes=4000)})
    assert (published(index).high_bytes, published(index).low_bytes) == (None, None)


def test_marks_of_a_device_are_told_when_they_turn_or_have_moved(index: redis.Redis, tmp_path: Path) -> None:
    """A device of 100,000, high mark 80 %, whose other users come and go."""
    storage = make_storage(tmp_path, high_watermark_ratio=0.8)
    began = timezone.now().replace(second=0, microsecond=0) + timedelta(minutes=1)

    def look(after: int, held: int, others: int) -> int | None:
        check(
            *("nfs_a", True),
            at=began + timedelta(seconds=after),
            usages={storage.number: StorageUsage(used_bytes=held)},
            used_bytes=held + others,
            capacity_bytes=100_000,
        )
        return published(index).high_bytes

    assert look(1, 10_000, 20_000) == 60_000
    assert look(6, 12_000, 19_000) == 60_000, "told with the room of all"
    assert look(31, 12_000, 21_000) == 60_000, "a little"
    assert look(36, 12_000, 30_000) == 60_000, "a lot, but it is early"
    assert look(61, 12_000, 30_000) == 50_000
    assert woken(index) == []
    assert look(66, 45_000, 36_000) == 44_000, "at once: it is over now"
    assert woken(index) != []
    assert look(71, 45_000, 30_000) == 50_000, "and no longer"
    assert woken(index) == []


def test_room_is_published_rarely_under_load(index: redis.Redis, tmp_path: Path) -> None:
    """Twenty storages fill and empty at random for ten minutes; a check each 5 s."""
    chance = random.Random(7)
    names = [f"s{number:02}" for number in range(20)]
    used = dict.fromkeys(names, 500_000)
    for name in names:
        make_storage(tmp_path, name)
    limits, began = HealthLimits(), timezone.now() + timedelta(minutes=1)
    before = index_registry.read_version(index) or 0
    rounds = 120
    for number in range(rounds):
        at = began + timedelta(seconds=5 * number)
        checks = []
        for storage in Storage.objects.order_by("name"):
            moved = used[storage.name] + chance.randint(-6_000, 9_000)
            used[storage.name] = min(900_000, max(100_000, moved))
            result = ProbeResult(True, used_bytes=used[storage.name], capacity_bytes=1_000_000)
            checks.append(CheckedStorage(storage.entry(), result, at))
        checks_note(checks=checks, usages={}, limits=limits)
    published_times = (index_registry.read_version(index) or 0) - before
    per_minute = published_times / (rounds * 5 / 60)
    print(f"{published_times} publications, {per_minute:.1f} a minute for {len(names)} storages")
    assert per_minute <= 2.1, "whatever the number of storages"
    told = {name: entry.free_bytes for name, entry in index_registry.read(index).storages.items()}
    for name in names:
        assert abs((told[name] or 0) - (1_000_000 - used[name])) < 0.15 * 1_000_000
