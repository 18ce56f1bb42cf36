"""What storages report as going wrong."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from django.utils import timezone

from apps.common.conditions import Finding
from apps.storages import conditions
from apps.storages.models import Storage, StorageSegment
from apps.storages.services import storage_remove, storage_update
from kvcm_platform.index import keyspace
from kvcm_platform.index import registry as index_registry
from kvcm_platform.index.storage_checks import request_check
from tests.apps.storages.looks import check, occupy
from tests.factories.actors import ADMIN
from tests.factories.objects import make_group, make_storage

pytestmark = pytest.mark.django_db(transaction=True)


def subjects(findings: object) -> list[str]:
    return [finding.subject for finding in findings]  # type: ignore[attr-defined]


def test_a_storage_that_fails_is_down_unless_it_is_disabled_or_leaves(
    index: redis.Redis, tmp_path: Path
) -> None:
    make_storage(tmp_path)
    make_group(storage_candidates=("nfs_a",))
    assert list(conditions.storages_down({})) == []
    for _ in range(3):
        check("nfs_a", False, "it hangs.")
    assert list(conditions.storages_down({})) == [
        Finding("nfs_a", "Storage nfs_a is unavailable: it hangs.", 3.0, ("chat",))
    ]
    assert list(conditions.storages_full({})) == []
    storage_update(acting=ADMIN, name="nfs_a", settings={"is_enabled": False})
    assert list(conditions.storages_down({})) == []
    Storage.objects.update(is_enabled=True, is_leaving=True)
    assert list(conditions.storages_down({})) == []


def test_a_full_storage(index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path)
    check("nfs_a", True, "No space left on device", is_full=True)
    (finding,) = conditions.storages_full({})
    assert (finding.subject, finding.groups) == ("nfs_a", ())
    assert finding.message == "Storage nfs_a takes no new blocks: No space left on device."


@pytest.mark.parametrize(
    ("capacity", "high", "is_found"),
    [(None, None, False), (4200, None, True), (8192, None, False), (8192, 0.51, True), (8192, 0.9, False)],
)
def test_nearly_full_by_its_own_watermark(
    index: redis.Redis, tmp_path: Path, capacity: int | None, high: float | None, is_found: bool
) -> None:
    storage = make_storage(tmp_path)
    Storage.objects.update(capacity_bytes=capacity, high_watermark_ratio=high, device_capacity_bytes=None)
    occupy(index, storage)
    found = list(conditions.storages_nearly_full({"used_ratio": 0.95}))
    assert subjects(found) == (["nfs_a"] if is_found else [])
    if is_found:
        assert found[0].value == 4096 / capacity  # type: ignore[operator]


def test_nearly_full_by_its_device(tmp_path: Path) -> None:
    """The index does not even have to answer."""
    make_storage(tmp_path)
    Storage.objects.update(device_used_bytes=96, device_capacity_bytes=100)
    (finding,) = conditions.storages_nearly_full({"used_ratio": 0.95})
    assert finding.value == 0.96
    Storage.objects.update(is_full=True)
    assert list(conditions.storages_nearly_full({"used_ratio": 0.95})) == []


def test_nodes_of_a_pool_that_are_away_or_lost(tmp_path: Path) -> None:
    storage = make_storage(tmp_path)
    now = timezone.now()
    for number, state in enumerate(("available", "unavailable", "lost", "lost"), start=100):
        StorageSegment.objects.create(
            storage=storage,
            number=number,
            node_id=f"n{number}",
            segment_id="s",
            address="a:1",
            size_bytes=1,
            state=state,
            found_at=now,
            seen_at=now,
        )
    (down,) = conditions.segments_down({})
    assert "n101" in down.message and down.value == 1
    (lost,) = conditions.segments_lost({})
    assert "n102, n103 (2 in all)" in lost.message and lost.value == 2


def test_content_that_began_anew_until_it_was_looked_at(index: redis.Redis, tmp_path: Path) -> None:
    storage = make_storage(tmp_path)
    assert list(conditions.contents_lost({})) == []
    Storage.objects.update(needs_content_check=True)
    assert subjects(conditions.contents_lost({})) == ["nfs_a"]
    Storage.objects.update(needs_content_check=False)
    request_check(index, [storage.number])
    # A look now and then is no loss, until it finds one.
    assert list(conditions.contents_lost({})) == []
    index.hset(keyspace.STORAGE_CHECKED, f"{storage.number}:lost", 7)
    (finding,) = conditions.contents_lost({})
    assert finding.value == 7
    request = index.hget(keyspace.STORAGE_CHECKS, str(storage.number))
    index.hset(keyspace.STORAGE_CHECKED, str(storage.number), request)
    assert list(conditions.contents_lost({})) == []


def test_deletions_that_fail(index: redis.Redis, tmp_path: Path) -> None:
    storage = make_storage(tmp_path)
    occupy(index, storage)
    (entry,) = index_registry.read(index).instances.values()
    base = keyspace.instance(entry.number, 0)
    since = round((time.time() - 90) * 1000)
    late = {f"{storage.number}:since": since, f"{storage.number}:why": "nfs_a: it hangs"}
    index.hset(keyspace.LATE_DELETIONS, mapping=late)
    # Nothing waits any more: an instance that was removed took it along.
    assert list(conditions.deletions_behind({"late_seconds": 60})) == []
    (ref,) = (name.split(b":")[1] for name in index.hkeys(base) if name.startswith(b"b:"))
    index.hset(base, f"b:{ref.decode()}:p", 512)
    (finding,) = conditions.deletions_behind({"late_seconds": 60})
    assert finding.subject == "nfs_a" and 90 <= (finding.value or 0) < 100
    assert "512 bytes wait: nfs_a: it hangs." in finding.message
    assert list(conditions.deletions_behind({"late_seconds": 120})) == []


def test_a_drain_that_does_not_get_on(index: redis.Redis, tmp_path: Path) -> None:
    storage = make_storage(tmp_path)
    make_storage(tmp_path, "nfs_b")
    occupy(index, storage)
    storage_update(acting=ADMIN, name="nfs_a", settings={"is_draining": True})
    stuck = {"still_seconds": 240.0}
    assert list(conditions.drains_stuck(stuck)) == []
    ago = timezone.now() - timedelta(seconds=250)
    Storage.objects.filter(name="nfs_a").update(departing_mark_at=ago, departing_mark_bytes=4096)
    (finding,) = conditions.drains_stuck(stuck)
    assert finding.value == 4096 and "drains and nothing left it for 250 s" in finding.message
    # It goes on to be stuck when the mark moves, and is not when something left before that.
    moved = {"departing_mark_at": timezone.now(), "departing_mark_bytes": 4096}
    Storage.objects.filter(name="nfs_a").update(**moved, departing_bytes_per_second=0.0)
    assert subjects(conditions.drains_stuck(stuck)) == ["nfs_a"]
    Storage.objects.filter(name="nfs_a").update(departing_bytes_per_second=5.0)
    assert list(conditions.drains_stuck(stuck)) == []
    Storage.objects.filter(name="nfs_a").update(departing_mark_at=ago, departing_mark_bytes=8192)
    assert list(conditions.drains_stuck(stuck)) == []
    storage_remove(acting=ADMIN, name="nfs_a", is_forced=True)
    Storage.objects.filter(name="nfs_a").update(departing_mark_at=ago, departing_mark_bytes=4096)
    assert "is being removed" in next(iter(conditions.drains_stuck(stuck))).message
