"""Publication on commit, and numbers that are never given twice."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import redis
from django.db import transaction

from apps.common.models import PendingPublication, RegistryState
from apps.common.queue import enqueue
from apps.common.services import number_next
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.index import registry as index_registry
from tests.factories.objects import make_group, make_storage

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_is_rolled_back_is_never_published(index: redis.Redis, tmp_path: Path) -> None:
    make_group()
    version = index_registry.read_version(index)
    with pytest.raises(RuntimeError), transaction.atomic():
        make_storage(tmp_path)
        assert index_registry.read(index).storages == {}, "not before the commit"
        raise RuntimeError
    assert index_registry.read_version(index) == version
    assert index_registry.read(index).storages == {}


def test_every_change_raises_the_one_version(index: redis.Redis, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        make_storage(tmp_path, f"s{number}")
        assert RegistryState.objects.get().version == index_registry.read_version(index) == number
    assert not PendingPublication.objects.exists()


def test_numbers_run_out() -> None:
    with transaction.atomic():
        assert [number_next(kind="k", at_most=2) for _ in range(2)] == [1, 2]
    with pytest.raises(DomainError) as caught, transaction.atomic():
        number_next(kind="k", at_most=2)
    assert caught.value.code is Code.CAPACITY


def test_a_broker_that_is_down_is_not_waited_for() -> None:
    started = time.monotonic()
    assert not enqueue("apps.anything")
    assert time.monotonic() - started < 10
