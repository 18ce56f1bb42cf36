"""What storages report as going wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from apps.common.conditions import Finding
from apps.storages.conditions import storages_down, storages_full, storages_nearly_full
from apps.storages.models import Storage
from kvcm_platform.index import keyspace, stats
from tests.factories.objects import make_group, make_instance, make_storage

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_storage_that_fails_is_down_unless_it_is_disabled(tmp_path: Path) -> None:
    make_storage(tmp_path)
    make_group(storage_candidates=("nfs_a",))
    assert list(storages_down({})) == []
    Storage.objects.update(is_available=False, failures_in_row=3, health_message="it hangs.")
    assert list(storages_down({})) == [
        Finding("nfs_a", "Storage nfs_a is unavailable: it hangs.", 3.0, ("chat",))
    ]
    assert list(storages_full({})) == []
    Storage.objects.update(is_enabled=False)
    assert list(storages_down({})) == []


def test_a_full_storage(tmp_path: Path) -> None:
    make_storage(tmp_path)
    Storage.objects.update(is_full=True, health_message="No space left on device")
    (finding,) = storages_full({})
    assert (finding.subject, finding.groups) == ("nfs_a", ())
    assert finding.message == "Storage nfs_a takes no new blocks: No space left on device."


@pytest.mark.parametrize(
    ("capacity", "watermark", "is_found"),
    [(None, None, False), (4096, None, True), (8192, None, False), (8192, 0.4, True), (4096, 1.0, False)],
)
def test_nearly_full_by_its_own_watermark_or_the_rules(
    index: redis.Redis, tmp_path: Path, capacity: int | None, watermark: float | None, is_found: bool
) -> None:
    storage = make_storage(tmp_path)
    Storage.objects.update(capacity_bytes=capacity, high_watermark_ratio=watermark)
    make_group()
    entry = make_instance()
    ref = 4 << stats.REF_SHIFT | storage.number
    index.hset(keyspace.instance(entry.number, 0), mapping={f"b:{ref}:s": 4096, f"n:{ref}:s": 1})
    found = list(storages_nearly_full({"used_ratio": 0.9}))
    assert [finding.subject for finding in found] == (["nfs_a"] if is_found else [])
