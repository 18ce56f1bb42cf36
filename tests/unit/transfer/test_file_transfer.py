"""Bytes to and from slot files: exact places, neighbours untouched, many writers at once."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kvcm_platform.transfer import (
    BlockPattern,
    FileTransfer,
    TransferError,
    block_checksum,
    wrong_bytes,
)


def uri(path: Path, slot: int | None = None, size: int = 8) -> str:
    place = "" if slot is None else f"blkid={slot}&"
    return f"file://nfs_01{path}?{place}size={size}"


def test_a_block_lands_at_its_slot_and_nowhere_else(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    with FileTransfer() as transfer:
        transfer.write(uri(path, 2), b"22222222")
        assert path.read_bytes() == bytes(16) + b"22222222"
        transfer.write(uri(path, 0), b"00000000")
        assert path.read_bytes() == b"00000000" + bytes(8) + b"22222222"
        assert transfer.read(uri(path, 2)) == b"22222222"
        assert transfer.read(uri(path, 1)) == bytes(8)


def test_a_file_is_never_truncated(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 64)
    with FileTransfer() as transfer:
        transfer.write(uri(path, 1), b"yyyyyyyy")
    assert path.read_bytes() == b"x" * 8 + b"y" * 8 + b"x" * 48


def test_without_blkid_the_block_is_the_file(tmp_path: Path) -> None:
    with FileTransfer() as transfer:
        transfer.write(uri(tmp_path / "one"), b"12345678")
        assert (tmp_path / "one").read_bytes() == b"12345678"


def test_a_batch_over_files_with_gaps(tmp_path: Path) -> None:
    blocks = [
        (uri(tmp_path / f"f{file}", slot), f"{file}-{slot:06}".encode())
        for file in range(5)
        for slot in (7, 0, 1, 3)
    ]
    with FileTransfer() as transfer:
        transfer.write_batch(blocks)
        found = transfer.read_batch([name for name, _ in reversed(blocks)])
    assert found == [data for _, data in reversed(blocks)]
    content = (tmp_path / "f3").read_bytes()
    assert content[16:24] == bytes(8), "slot 2 was nobody's"
    assert len(content) == 64


def test_more_slots_than_one_system_call_takes(tmp_path: Path) -> None:
    blocks = [(uri(tmp_path / "big", slot), b"%08d" % slot) for slot in range(2500)]
    with FileTransfer() as transfer:
        transfer.write_batch(blocks)
        assert transfer.read_batch([name for name, _ in blocks]) == [data for _, data in blocks]


def test_neighbouring_slots_go_in_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []
    pwritev = os.pwritev
    monkeypatch.setattr(
        os, "pwritev", lambda fd, data, at: calls.append((len(data), at)) or pwritev(fd, data, at)
    )
    with FileTransfer() as transfer:
        transfer.write_batch([(uri(tmp_path / "f", slot), b"%08d" % slot) for slot in (5, 2, 0, 1, 6)])
    assert calls == [(3, 0), (2, 40)]


def test_partial_system_calls_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwritev, preadv = os.pwritev, os.preadv
    monkeypatch.setattr(os, "pwritev", lambda fd, data, at: pwritev(fd, [memoryview(data[0])[:5]], at))
    monkeypatch.setattr(os, "preadv", lambda fd, data, at: preadv(fd, [memoryview(data[0])[:3]], at))
    blocks = [(uri(tmp_path / "f", slot), b"%08d" % slot) for slot in range(3)]
    with FileTransfer() as transfer:
        transfer.write_batch(blocks)
        assert transfer.read_batch([name for name, _ in blocks]) == [data for _, data in blocks]


def test_many_writers_share_files(tmp_path: Path) -> None:
    pattern = BlockPattern("i", "tp0", 4096)
    names = [uri(tmp_path / f"d{n // 64}" / f"f{n // 8}", n % 8, 4096) for n in range(256)]

    def write(offset: int) -> None:
        mine = range(offset, 256, 8)
        shared.write_batch([(names[n], data) for n, data in zip(mine, pattern.blocks(mine), strict=True)])

    with FileTransfer(threads=4) as shared:
        with ThreadPoolExecutor(8) as engines:
            list(engines.map(write, range(8)))
        found = shared.read_batch(names)
    assert found == pattern.blocks(range(256))


@pytest.mark.parametrize(
    "bad",
    [
        "nothing",
        "mooncake://m/?key=a&size=8",
        "file://nfs_01/tmp/x",
        "file://nfs_01/tmp/x?size=many",
        "file://nfs_01/tmp/../etc/x?size=8",
        "file://nfs_01/tmp/..?size=8",
    ],
)
def test_uris_that_are_refused(bad: str) -> None:
    with FileTransfer() as transfer, pytest.raises(TransferError):
        transfer.write(bad, b"12345678")


def test_paths_outside_the_root_are_refused(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    with FileTransfer(root=inside) as transfer:
        transfer.write(uri(inside / "a"), b"12345678")
        for path in (outside / "a", inside / "link" / "a"):
            with pytest.raises(TransferError, match="outside"):
                transfer.write(uri(path), b"12345678")
    assert not list(outside.iterdir())


def test_the_slot_and_the_data_must_agree(tmp_path: Path) -> None:
    with FileTransfer() as transfer:
        for data in (b"1234567", b"123456789"):
            with pytest.raises(ValueError, match="for a slot of 8"):
                transfer.write(uri(tmp_path / "f", 1), data)
    assert not (tmp_path / "f").exists()


def test_missing_and_short_files(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"x" * 12)
    with FileTransfer() as transfer:
        with pytest.raises(TransferError, match="No such file"):
            transfer.read(uri(tmp_path / "none"))
        found = transfer.read_batch([uri(tmp_path / "short", 0), uri(tmp_path / "short", 1)])
    assert found[0] == b"x" * 8
    assert isinstance(found[1], TransferError)
    assert "ends before" in found[1].reason


class TestPattern:
    def test_words_are_splitmix64(self) -> None:
        """The first outputs for seed 0, as published with the algorithm."""
        pattern = BlockPattern("i", "s", 24)
        pattern._seed = lambda key: 0  # type: ignore[method-assign]
        words = [int.from_bytes(pattern.block(1)[i : i + 8], "little") for i in (0, 8, 16)]
        assert words == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]

    def test_every_part_of_the_name_counts(self) -> None:
        made = {
            BlockPattern("i", "tp0", 100).block(1),
            BlockPattern("j", "tp0", 100).block(1),
            BlockPattern("i", "tp1", 100).block(1),
            BlockPattern("i", "tp0", 100).block(2),
            BlockPattern("i", "tp0", 100).block(-1),
        }
        assert len(made) == 5
        assert {len(block) for block in made} == {100}
        assert BlockPattern("i", "tp0", 100).block(-1) in made

    def test_counting_wrong_bytes(self) -> None:
        block = BlockPattern("i", "tp0", 4096).block(5)
        assert wrong_bytes(block, block) == 0
        assert wrong_bytes(block[:100] + bytes([block[100] ^ 1]) + block[101:], block) == 1
        assert wrong_bytes(block[:4000], block) == 96
        assert wrong_bytes(b"", block) == 4096


def test_a_checksum_tells_bytes_that_changed(tmp_path: Path) -> None:
    path = tmp_path / "f"
    blocks = [(uri(path, slot), bytes([65 + slot]) * 8) for slot in range(3)]
    sums = [block_checksum(data) for _, data in blocks]
    assert len(set(sums)) == 3
    with FileTransfer() as transfer:
        transfer.write_batch(blocks)
        assert transfer.read_batch([name for name, _ in blocks], sums) == [data for _, data in blocks]
        with path.open("r+b") as file:
            file.seek(9)
            file.write(b"?")
        results = transfer.read_batch([name for name, _ in blocks], sums)
        assert [type(result) for result in results] == [bytes, TransferError, bytes]
        with pytest.raises(TransferError, match="checksum"):
            transfer.read(blocks[1][0], sums[1])
        assert transfer.read(blocks[1][0]) == b"B?BBBBBB"
