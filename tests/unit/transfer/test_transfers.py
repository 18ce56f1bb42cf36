"""The URI picks the transfer: several storages at once, unknown ones, and what a client cannot do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.storage_configs import StorageDescription, read_storage_configs, storage_configs
from kvcm_platform.core.types import StorageType
from kvcm_platform.transfer import TransferError, Transfers, block_checksum


def nfs(name: str, path: Path) -> StorageDescription:
    return StorageDescription(name, "file", True, {"root_path": f"{path}/"})


def uri(name: str, path: Path) -> str:
    return f"file://{name}{path}?size=4"


def reason(result: object) -> str:
    assert isinstance(result, TransferError)
    return result.reason


def test_a_batch_over_several_storages_keeps_its_order(tmp_path: Path) -> None:
    names = ["a", "b", "a", "c", "b"]
    blocks = [(uri(name, tmp_path / name / str(at)), b"%04d" % at) for at, name in enumerate(names)]
    with Transfers([nfs(name, tmp_path) for name in "abc"]) as transfers:
        assert transfers.write_batch(blocks) == [None] * 5
        uris = [name for name, _ in blocks]
        assert transfers.read_batch(uris) == [data for _, data in blocks]
        sums = [block_checksum(data) for _, data in blocks]
        sums[3] ^= 1
        found = transfers.read_batch(uris, sums)
        assert "checksum" in reason(found.pop(3))
        assert found == [b"0000", b"0001", b"0002", b"0004"]


def test_a_storage_without_a_transfer_is_a_reason(tmp_path: Path) -> None:
    known = [nfs("a", tmp_path), StorageDescription("odd", "tape", True)]
    with Transfers(known) as transfers:
        found = transfers.write_batch(
            [("tape://odd/1?size=4", b"1234"), (uri("a", tmp_path / "f"), b"1234"), ("nonsense", b"1234")]
        )
        assert reason(found[0]) == "this client has no transfer for storages of type tape"
        assert found[1] is None
        assert "no storage ''" in reason(found[2])
        with pytest.raises(TransferError, match="no storage 'x' is known here"):
            transfers.read("file://x/f?size=4")


def test_an_unknown_storage_is_asked_for_once(tmp_path: Path) -> None:
    asked: list[int] = []

    def reload() -> Sequence[StorageDescription]:
        asked.append(1)
        return [nfs("a", tmp_path), nfs("late", tmp_path)]

    with Transfers([nfs("a", tmp_path)], reload=reload) as transfers:
        transfers.write(uri("a", tmp_path / "f"), b"1234")
        assert asked == []
        transfers.write(uri("late", tmp_path / "g"), b"1234")
        for _ in range(3):
            with pytest.raises(TransferError, match="no storage 'never'"):
                transfers.read(uri("never", tmp_path / "g"))
        assert asked == [1]


def test_a_reload_without_an_answer_leaves_the_reason(tmp_path: Path) -> None:
    with (
        Transfers([], reload=lambda: None) as transfers,
        pytest.raises(TransferError, match="no storage 'a' is known here"),
    ):
        transfers.read(uri("a", tmp_path / "g"))


def test_what_clients_are_told_reads_back_with_the_protocols_names(tmp_path: Path) -> None:
    spec = {
        "local_hostname": "localhost",
        "metadata_connstring": "http://127.0.0.1:8080/metadata",
        "protocol": "tcp",
        "rdma_device": "",
        "master_service_entry": "127.0.0.1:50051",
    }
    entries = [
        StorageEntry("files", 1, StorageType.NFS, {"root_path": f"{tmp_path}/", "key_count_per_file": 2}),
        StorageEntry("moon", 2, StorageType.MOONCAKE, spec, is_available=False),
    ]
    text = storage_configs(entries)
    assert '"master_server_entry"' in text
    files, moon = read_storage_configs(text)
    assert (moon.name, moon.type, moon.is_available, moon.spec) == ("moon", "mooncake", False, spec)
    for transfers in (Transfers.from_storage_configs(text), Transfers.from_entries(entries)):
        with transfers:
            transfers.write(uri("files", tmp_path / "x"), b"abcd")
            assert transfers.read(uri("files", tmp_path / "x")) == b"abcd"
    assert files.spec["key_count_per_file"] == 2


@pytest.mark.parametrize("text", ["{}", "[1]", "nonsense"])
def test_storage_configs_that_are_none(text: str) -> None:
    with pytest.raises(ValueError):
        read_storage_configs(text)


def test_members_may_be_missing() -> None:
    (storage,) = read_storage_configs('[{"global_unique_name":"a"}]')
    assert storage == StorageDescription("a", "", True, {})
    assert read_storage_configs("") == ()
