"""What may go wrong with the index and its upkeep."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest
import redis
from django.utils import timezone

from apps.cache_index.conditions import control_behind, duties_behind, index_in_doubt
from apps.common.models import PendingPublication
from kvcm_platform.index import keyspace, life
from tests.factories.objects import make_group, make_instance, make_storage

pytestmark = pytest.mark.django_db(transaction=True)
LATE = {"late_seconds": 60.0}


def test_an_index_in_doubt_says_so(index: redis.Redis) -> None:
    assert list(index_in_doubt({})) == []
    index.hset(keyspace.GENERATION, "state", life.UNDECIDED)
    (finding,) = index_in_doubt({})
    assert finding.subject == "index" and "waits for control" in finding.message


def test_an_index_that_is_away_is_not_known_to_be_fine() -> None:
    with pytest.raises(redis.RedisError):
        list(index_in_doubt({}))


def test_deletions_that_nobody_carries_out(index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path)
    make_group()
    due = keyspace.pending_due(keyspace.instance(make_instance().number, 0))
    assert list(duties_behind(LATE)) == []
    now = time.time() * 1000
    index.zadd(due, {"soon": now + 60_000, "late": now - 90_000, "a little": now - 5000})
    (finding,) = duties_behind(LATE)
    assert finding.subject == "duties" and 90 <= (finding.value or 0) < 100
    index.zrem(due, "late")
    assert list(duties_behind(LATE)) == []


def test_changes_that_do_not_reach_the_index() -> None:
    PendingPublication.objects.create(version=1)
    assert list(control_behind({"late_seconds": 30.0})) == []
    PendingPublication.objects.update(created_at=timezone.now() - timedelta(seconds=40))
    (finding,) = control_behind({"late_seconds": 30.0})
    assert (finding.subject, finding.value, finding.groups) == ("control", 1.0, None)
