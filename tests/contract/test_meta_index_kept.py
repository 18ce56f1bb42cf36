"""What a MetaIndex keeps: opening again, snapshots, kill -9."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kvcm_platform.core.errors import Code
from kvcm_platform.index.embedded import memory
from kvcm_platform.index.meta_index.factory import open_meta_index
from tests.support.meta_index import KEPT, PLAIN, everything, refused

# Opening again


@pytest.mark.parametrize("bench", KEPT, indirect=True)
async def test_records_outlive_the_object(bench):
    index = await bench.open(max_key_count=3000)
    await index.put([(key, b"%d" % key) for key in range(2990)])
    await index.delete([0, 5])
    usage = await index.usage()
    await bench.close()
    again = await bench.open(max_key_count=3000)
    assert await again.get([0, 1, 2989]) == [None, b"1", b"2989"]
    assert await again.usage() == usage
    assert len(await everything(again)) == 2988
    await refused(again.put([(key, b"") for key in range(5000, 5100)]), Code.CAPACITY)


async def test_a_number_of_shards_is_for_good(redis_connection):
    settings = replace(PLAIN, storage_type="redis", storage_uri="?shards=3")
    await open_meta_index(settings, "test", commands=redis_connection)
    other = replace(settings, storage_uri="?shards=4")
    await refused(open_meta_index(other, "test", commands=redis_connection), Code.CONFLICT)


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign"])
async def test_a_broken_snapshot_is_put_aside(tmp_path, damage, monkeypatch):
    reported: list[str] = []
    monkeypatch.setattr(
        memory,
        "log",
        SimpleNamespace(error=lambda text, **_: reported.append(text), info=lambda *_, **__: None),
    )
    settings = replace(PLAIN, storage_type="local", storage_uri=f"file://{tmp_path}/s")
    index = await open_meta_index(settings, "test")
    await index.put([(key, b"record") for key in range(100)])
    await index.close()
    file = tmp_path / "s"
    raw = file.read_bytes()
    broken = {"cut": raw[:-40], "flip": raw[:50] + b"\xff" + raw[51:], "empty": b"", "foreign": b"x" * 200}
    file.write_bytes(broken[damage])
    again = await open_meta_index(settings, "test")
    assert await again.count() == 0
    assert reported == ["the snapshot cannot be used: the index begins empty"]
    await again.put([(1, b"new")])
    await again.close()
    assert (tmp_path / "s.broken").read_bytes() == broken[damage]
    third = await open_meta_index(settings, "test")
    assert await everything(third) == [(1, b"new")]
    await third.close()


async def test_a_snapshot_is_written_by_itself(tmp_path):
    settings = replace(
        PLAIN, storage_type="local", storage_uri=f"file://{tmp_path}/deep/s?persist_interval_ms=10"
    )
    index = await open_meta_index(settings, "test")
    await index.put([(1, b"a")])
    async with asyncio.timeout(20):
        while not (tmp_path / "deep" / "s").exists():
            await asyncio.sleep(0.01)
    assert {path.name for path in (tmp_path / "deep").iterdir()} == {"s", "s.lock"}
    await index.close()


async def test_a_rocksdb_folder_belongs_to_one_process(tmp_path):
    settings = replace(PLAIN, storage_type="rocksdb", storage_uri=f"file://{tmp_path}/rocks")
    first = await open_meta_index(settings, "test")
    error = await refused(open_meta_index(settings, "test"), Code.IN_USE)
    assert "belongs to one process" in error.message
    await first.close()
    await (await open_meta_index(settings, "test")).close()


async def test_rocksdb_outlives_kill_nine(tmp_path):
    """Every batch of ten records that the worker reported is there, and no batch is there in part."""
    settings = replace(PLAIN, storage_type="rocksdb", storage_uri=f"file://{tmp_path}/rocks")
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.support.meta_index_worker", "rocksdb", str(tmp_path / "rocks")],
        stdout=subprocess.PIPE,
    )
    reported = 0
    for line in worker.stdout:
        reported = int(line)
        if reported >= 200:
            os.kill(worker.pid, signal.SIGKILL)
            break
    worker.wait()
    reported = max([reported, *map(int, worker.stdout.read().split())])
    worker.stdout.close()
    index = await open_meta_index(settings, "test")
    count = await index.count()
    assert count % 10 == 0
    assert count >= reported * 10
    items = dict(await everything(index))
    assert len(items) == count
    assert await index.get(range(count)) == [b"%d" % key for key in range(count)]
    assert (await index.usage()).bytes == sum(8 + len(record) for record in items.values())
    await index.close()
