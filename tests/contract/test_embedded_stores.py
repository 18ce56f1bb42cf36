"""What survives of a ByteStore: snapshots that somebody waits for, full disks, a folder taken twice."""

from __future__ import annotations

import asyncio
import resource
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.index.embedded import memory, rocks, snapshot
from kvcm_platform.index.embedded.memory import MemoryStore
from kvcm_platform.index.embedded.rocks import RocksStore

NEVER = 3600.0
TABLE = b"table"


@pytest.fixture
async def store(tmp_path):
    """Writes a snapshot when it is asked for, and at no other time."""
    opened = await MemoryStore(tmp_path / "blocks", NEVER).open()
    yield opened
    await opened.close()


def put(store: MemoryStore | RocksStore, key: bytes, value: bytes = b"value") -> None:
    store.write([(TABLE, key, value)])


def kept(file: Path) -> dict[bytes, bytes]:
    """What a process would find that starts now."""
    return {key: value for _, key, value in snapshot.load(file)}


async def test_what_was_written_before_a_sync_is_on_the_disk_after_it(store, tmp_path):
    for number in range(3):
        put(store, b"%d" % number)
        await store.sync()
        assert len(kept(tmp_path / "blocks")) == number + 1
    store.write([(TABLE, b"1", None)])
    await store.sync()
    assert kept(tmp_path / "blocks").keys() == {b"0", b"2"}


class Gate:
    """Holds the first snapshot until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open, self.count, self.at_once, self.most = threading.Event(), 0, 0, 0
        save = snapshot.save

        def held(path, items):
            self.count += 1
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            assert self.count > 1 or self.open.wait(20)
            save(path, items)
            self.at_once -= 1

        monkeypatch.setattr(snapshot, "save", held)

    async def reached(self) -> None:
        async with asyncio.timeout(20):
            while not self.at_once:
                await asyncio.sleep(0.001)


async def test_a_sync_does_not_take_a_snapshot_that_began_before_it(store, tmp_path, monkeypatch):
    """And those that wait share the next one."""
    gate = Gate(monkeypatch)
    put(store, b"first")
    first = asyncio.create_task(store.sync())
    await gate.reached()
    put(store, b"second")
    others = [asyncio.create_task(store.sync()) for _ in range(5)]
    await asyncio.sleep(0)
    gate.open.set()
    await asyncio.gather(first, *others)
    assert kept(tmp_path / "blocks").keys() == {b"first", b"second"}
    assert gate.count == 2


async def test_a_cancelled_sync_leaves_no_two_to_write_the_file(store, tmp_path, monkeypatch):
    gate = Gate(monkeypatch)
    put(store, b"first")
    waiting = asyncio.create_task(store.sync())
    await gate.reached()
    waiting.cancel()
    await asyncio.wait([waiting])
    put(store, b"second")
    last = asyncio.create_task(store.sync())
    await asyncio.wait([last], timeout=0.1)
    gate.open.set()
    await last
    assert kept(tmp_path / "blocks").keys() == {b"first", b"second"}
    assert gate.most == 1


async def test_a_snapshot_that_cannot_be_written_is_said(store, tmp_path, monkeypatch):
    put(store, b"kept")
    await store.sync()
    with full_disk(0):
        put(store, b"lost?")
        with pytest.raises(OSError, match="too large"):
            await store.sync()
        # A moment without room is nobody's business yet.
        assert store.trouble == ""
        monkeypatch.setattr(memory, "REFUSE_AFTER_SECONDS", 0.0)
        assert store.trouble.startswith("the snapshot cannot be written: ")
        assert kept(tmp_path / "blocks").keys() == {b"kept"}
    await store.sync()
    assert store.trouble == ""
    assert kept(tmp_path / "blocks").keys() == {b"kept", b"lost?"}


async def test_without_a_file_there_is_nothing_to_wait_for():
    store = await MemoryStore().open()
    put(store, b"key")
    await store.sync()
    assert store.trouble == ""
    await store.close()


async def test_a_snapshot_belongs_to_one_process(store, tmp_path):
    with pytest.raises(DomainError, match="a local index belongs to one process") as caught:
        MemoryStore(tmp_path / "blocks").load()
    assert caught.value.code is Code.IN_USE
    put(store, b"key")
    await store.close()
    again = await MemoryStore(tmp_path / "blocks").open()
    assert again.get(TABLE, [b"key"]) == [b"value"]
    await again.close()


# RocksDB

BIG = b"x" * 100_000


@contextmanager
def full_disk(most: int) -> Iterator[None]:
    """No file of this process grows over `most` bytes: writes fail as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
async def broken(tmp_path, monkeypatch):
    """A rocksdb store whose last write failed; it held `kept`."""
    monkeypatch.setattr(rocks, "FIRST_RETRY_SECONDS", 0.0)
    monkeypatch.setattr(rocks, "LAST_RETRY_SECONDS", 0.0)
    opened = RocksStore(tmp_path / "rocks")
    put(opened, b"kept")
    with full_disk(50_000):
        for _ in range(2):
            with pytest.raises(OSError, match="rocksdb cannot write|too large"):
                put(opened, b"failed", BIG)
        assert opened.get(TABLE, [b"kept"]) == [b"value"]
    return opened


async def test_rocksdb_writes_again_after_a_full_disk(broken, tmp_path):
    put(broken, b"later", BIG)
    assert broken.get(TABLE, [b"kept", b"failed", b"later"]) == [b"value", None, BIG]
    await broken.sync()
    await broken.close()
    again = RocksStore(tmp_path / "rocks")
    assert again.get(TABLE, [b"kept", b"failed", b"later"]) == [b"value", None, BIG]
    await again.close()


async def test_rocksdb_recovers_when_it_is_looked_after(broken):
    broken.recover()
    put(broken, b"later")
    assert broken.get(TABLE, [b"kept", b"later"]) == [b"value", b"value"]
    await broken.close()


async def test_a_folder_that_cannot_be_opened_anew_is_lost_to_the_process(broken, tmp_path):
    shutil.move(tmp_path / "rocks" / "CURRENT", tmp_path / "CURRENT")
    (tmp_path / "rocks" / "CURRENT").mkdir()
    for _ in range(rocks.REOPENINGS):
        assert not broken.is_lost
        with pytest.raises(OSError, match="cannot be opened anew"):
            broken.recover()
    assert broken.is_lost
    with pytest.raises(OSError, match="cannot write"):
        put(broken, b"later")
    with pytest.raises(OSError, match="cannot read"):
        list(broken.items(TABLE))
    await broken.close()


async def test_closing_a_store_that_cannot_be_written_is_an_oserror(broken):
    with pytest.raises(OSError, match="rocksdb cannot be closed in order"):
        await broken.close()
