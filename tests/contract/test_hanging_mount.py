"""A mount that hangs costs a caller its time limit once, and nothing more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.uris import MARKER
from kvcm_platform.storage import marker
from kvcm_platform.storage.tidy import tidy
from kvcm_platform.transfer import FileTransfer, TransferError
from tests.support.hanging_mount import HangingMount, hanging_mount
from tests.support.platform_process import wait_for

LIMIT = 0.3
SIZE = 4096


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[HangingMount]:
    with hanging_mount(tmp_path) as running:
        yield running


def uri(folder: Path, name: str = "a.x") -> str:
    return f"file://nfs_01{folder}/{name}?size={SIZE}"


def test_a_transfer_fails_in_time_and_then_at_once_until_the_mount_answers(mount, tmp_path):
    transfer = FileTransfer(call_seconds=LIMIT)
    block = b"\x07" * SIZE
    transfer.write(uri(mount.path), block)
    mount.hang()
    started = time.monotonic()
    with pytest.raises(TransferError, match="no answer within"):
        transfer.read(uri(mount.path))
    assert time.monotonic() - started < 10 * LIMIT + 10
    results = transfer.write_batch([(uri(mount.path, f"{name}.x"), block) for name in "bcd"])
    assert [error.reason for error in results if error] == ["an earlier call on this storage still hangs"] * 3
    mount.go_on()
    wait_for(lambda: not transfer._hangs(), 40, "the stuck call returned")
    assert transfer.read(uri(mount.path)) == block
    transfer.close()


def test_closing_does_not_wait_for_what_hangs(mount):
    transfer = FileTransfer(call_seconds=LIMIT)
    mount.hang()
    assert isinstance(transfer.read_batch([uri(mount.path)])[0], TransferError)
    started = time.monotonic()
    transfer.close()
    assert time.monotonic() - started < 20
    mount.go_on()


def test_what_lies_below_a_mount_that_is_gone_is_not_written_to(mount):
    (mount.source / MARKER).touch()
    transfer = FileTransfer(storage_root=mount.path)
    transfer.write(uri(mount.path, "model/tp0/a.x"), b"\x07" * SIZE)
    mount.take_away()
    with pytest.raises(TransferError, match="not mounted any more"):
        transfer.write(uri(mount.path, "other/tp0/b.x"), b"\x07" * SIZE)
    assert list(mount.path.iterdir()) == []
    mount.bring_back()
    transfer.write(uri(mount.path, "other/tp0/b.x"), b"\x07" * SIZE)
    assert (mount.source / "other/tp0/b.x").stat().st_size == SIZE
    transfer.close()


def test_a_storage_without_a_marker_is_anothers_managers(tmp_path):
    """The reference server leaves none: folders are made as ever."""
    transfer = FileTransfer(storage_root=tmp_path)
    transfer.write(uri(tmp_path, "model/tp0/a.x"), b"\x07" * SIZE)
    assert (tmp_path / "model/tp0/a.x").exists()
    transfer.close()


def test_looking_for_empty_folders_ends_in_time_and_then_at_once(mount):
    marker.mark(str(mount.path))
    (mount.path / "gone/tp0").mkdir(parents=True)
    storage = StorageEntry("nfs_01", 1, StorageType.NFS, {"root_path": f"{mount.path}/"})
    mount.hang()
    with pytest.raises(TimeoutError, match="not gone through within"):
        tidy(storage, time.time() + 60, seconds=LIMIT)
    with pytest.raises(TimeoutError, match="still being gone through"):
        tidy(storage, time.time() + 60, seconds=60)
    mount.go_on()
    wait_for(lambda: not (mount.source / "gone").exists(), 40, "the first look went on")
