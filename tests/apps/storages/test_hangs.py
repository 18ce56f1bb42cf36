"""Storages that hang for real: a folder whose marker is a pipe, a server that takes no connection."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
import redis
from django.utils import timezone

from apps.storages.models import Storage, StorageHealthSample
from apps.storages.services import checking, storage_add
from apps.storages.tasks import check_storages
from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.uris import MARKER
from kvcm_platform.core.validation.storages import StorageSettings
from kvcm_platform.index import keyspace
from kvcm_platform.storage.backend import ProbeResult, SegmentSeen
from kvcm_platform.storage.probe import PROBE_SECONDS, probe
from kvcm_platform.storage.registry import KINDS
from tests.apps.storages.looks import published
from tests.factories.actors import ADMIN
from tests.factories.objects import make_storage

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def hanging(*roots: Path) -> Iterator[None]:
    """Whoever opens the markers of these folders waits until the end of this."""
    kept = [(root / MARKER).read_bytes() for root in roots]
    for root in roots:
        (root / MARKER).unlink()
        os.mkfifo(root / MARKER)
    try:
        yield
    finally:
        for root, content in zip(roots, kept, strict=True):
            pipe = root / MARKER
            while True:
                with suppress(OSError):
                    os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
                    continue
                break  # nobody waits there any more
            pipe.unlink()
            pipe.write_bytes(content)


@contextmanager
def black_hole() -> Iterator[int]:
    """A port whose server answers no connection any more."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        waiting = []
        for _ in range(3):
            client = socket.socket()
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.connect(server.getsockname())
            waiting.append(client)
        try:
            yield server.getsockname()[1]
        finally:
            for client in waiting:
                client.close()


def test_many_that_hang_cost_one_round_its_time_and_the_others_nothing(
    index: redis.Redis, tmp_path: Path
) -> None:
    names = [f"hung_{number:03}" for number in range(140)]
    for name in [*names, "good"]:
        make_storage(tmp_path, name)
    Storage.objects.update(health_checked_at=None)
    with hanging(*(tmp_path / name for name in names)):
        began = time.monotonic()
        done = threading.Event()
        saw_good: list[float] = []

        def watch() -> None:
            while not done.is_set():
                if index.exists(keyspace.STORAGE_ROUND_LEASE):
                    saw_good.append(time.monotonic())
                done.wait(0.2)

        watcher = threading.Thread(target=watch)
        watcher.start()
        report = check_storages()
        took = time.monotonic() - began
        done.set()
        watcher.join()
        # Two waves of probes that wait side by side, not 140 in a row.
        assert took < 4 * PROBE_SECONDS + 5, "the round is bounded, however many hang"
        assert saw_good, "the round holds its lease meanwhile"
        assert report["unavailable"] == names, "out within one round"
        assert published(index, "good").is_served
        assert not published(index, names[0]).is_served
        good = StorageHealthSample.objects.filter(storage__name="good").order_by("id").first()
        assert good is not None
        assert good.latency_ms is not None
        assert good.latency_ms < 2500
        before = threading.active_count()
        began = time.monotonic()
        assert check_storages()["unavailable"] == names
        assert time.monotonic() - began < PROBE_SECONDS, "no probe is sent after one that hangs"
        assert threading.active_count() <= before + 130
    assert check_storages()["unavailable"] == []
    assert published(index, names[0]).is_writable


def test_a_result_that_cannot_be_noted_keeps_no_other_from_it(
    index: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("good", "odd", "other"):
        make_storage(tmp_path, name)
    began = timezone.now()

    def look(entry: StorageEntry, **_: object) -> ProbeResult:
        return ProbeResult(True, used_bytes=1 << 80 if entry.name == "odd" else 1, capacity_bytes=1 << 20)

    monkeypatch.setattr(checking, "probe", look)
    assert check_storages()["unavailable"] == []
    seen = Storage.objects.filter(health_checked_at__gte=began).values_list("name", flat=True)
    assert sorted(seen) == ["good", "other"]


def test_what_no_database_keeps_is_not_noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An agent's name for itself, and what a server says, are theirs to choose."""
    found = [
        SegmentSeen("a", "1", "h:1", 1),
        SegmentSeen("b\x00", "1", "h:2", 1),
        SegmentSeen("c" * 129, "1", "", 1),
    ]
    found.append(SegmentSeen("d", "1", "h:3", 1 << 63))
    result = ProbeResult(True, "it said \x00\ud800", segments=tuple(found), content_life="\x00")
    kind = replace(KINDS[StorageType.NFS], probe=lambda *_: result)
    monkeypatch.setitem(KINDS, StorageType.NFS, kind)
    kept = probe(make_storage(tmp_path).entry())
    assert [segment.node_id for segment in kept.segments] == ["a"]
    assert kept.message == "it said ??; 3 segments with names or sizes that cannot be kept"
    assert kept.content_life == "?"


def test_a_server_that_takes_no_connection(index: redis.Redis, tmp_path: Path) -> None:
    mount = tmp_path / "mnt"
    mount.mkdir()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        port = server.getsockname()[1]
        spec = {
            "mountpoint": str(mount),
            "root_dir": "kv",
            "remote_host": "127.0.0.1",
            "remote_port": port,
            "meta_storage_uri": "x",
        }
        storage = storage_add(
            acting=ADMIN,
            name="vcns",
            kind=StorageType.VCNS_HF3FS,
            spec=spec,
            settings=StorageSettings(),
        )
        assert storage.is_available, storage.health_message
    with black_hole() as port:
        Storage.objects.update(spec={**storage.spec, "remote_port": port})
        began = time.monotonic()
        assert check_storages()["unavailable"] == ["vcns"]
        assert time.monotonic() - began < 2 * PROBE_SECONDS + 2
        assert "does not take a connection" in published(index, "vcns").refusal


def test_two_at_once_on_one_target_wait_for_each_other(tmp_path: Path) -> None:
    """Somebody tries a storage while it is checked: neither may say that it hangs."""
    entry = make_storage(tmp_path).entry()
    with hanging(tmp_path / "nfs_a"):
        results = []
        threads = [
            threading.Thread(target=lambda: results.append(probe(entry, seconds=20)), daemon=True)
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        assert results == []
    for thread in threads:
        thread.join(20)
    assert [(result.is_ok, result.message) for result in results] == [(True, "")] * 4


def test_one_round_at_a_time(index: redis.Redis, tmp_path: Path) -> None:
    make_storage(tmp_path)
    index.set(keyspace.STORAGE_ROUND_LEASE, "another worker", px=20_000)
    assert "skipped" in check_storages()
    index.delete(keyspace.STORAGE_ROUND_LEASE)
    assert check_storages()["checks"] == 1
    assert not index.exists(keyspace.STORAGE_ROUND_LEASE)
