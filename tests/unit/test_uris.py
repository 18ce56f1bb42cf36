"""URI strings of WIRE.md 3.8 with the suffix of section A."""

from __future__ import annotations

import pytest
import xxhash

from kvcm_platform.core.registry import LocationSpecInfo, StorageEntry
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.uris import SlotPosition, key_names, parse_uri
from kvcm_platform.core.uris import build_uris as build_columns

TP0, TP1, BIG = LocationSpecInfo("tp0", 1024), LocationSpecInfo("tp1", 1024), LocationSpecInfo("big", 4096)


def build_uris(store, instance_id, specs, keys, location_id) -> list[list[str]]:
    """One row of URIs per key, which reads better here than one column per spec."""
    columns = build_columns(store, instance_id, specs, key_names(keys), location_id)
    return [list(row) for row in zip(*columns, strict=True)]


def nfs(slots: int) -> StorageEntry:
    return StorageEntry("nfs_01", 1, StorageType.NFS, {"root_path": "/tmp/nfs/", "key_count_per_file": slots})


def run_hash(*names: str) -> str:
    return f"{xxhash.xxh64_intdigest('|'.join(names).encode(), seed=42):x}"


def test_one_key_a_file():
    assert build_uris(nfs(1), "m", [TP0], [255, -1], "k3y5id00") == [
        ["file://nfs_01/tmp/nfs/m/tp0/ff.k3y5id00?size=1024"],
        ["file://nfs_01/tmp/nfs/m/tp0/ffffffffffffffff.k3y5id00?size=1024"],
    ]


def test_several_keys_a_file_share_the_first_ones_path():
    digest = run_hash("m/tp0/1", "m/tp0/2")
    assert [row[0] for row in build_uris(nfs(2), "m", [TP0], [1, 2, 3], "k3y5id00")] == [
        f"file://nfs_01/tmp/nfs/m/tp0/1_{digest}.k3y5id00?blkid=0&size=1024",
        f"file://nfs_01/tmp/nfs/m/tp0/1_{digest}.k3y5id00?blkid=1&size=1024",
        # A run of one key has no hash but still has its blkid.
        "file://nfs_01/tmp/nfs/m/tp0/3.k3y5id00?blkid=0&size=1024",
    ]


def test_equal_specs_are_allocated_together_and_may_share_a_file():
    rows = build_uris(nfs(4), "m", [TP0, TP1], [1, 2, 3], "k3y5id00")
    digest = run_hash("m/tp0/1", "m/tp0/2", "m/tp0/3", "m/tp1/1")
    assert rows[0][1] == f"file://nfs_01/tmp/nfs/m/tp0/1_{digest}.k3y5id00?blkid=3&size=1024"
    second = run_hash("m/tp1/2", "m/tp1/3")
    assert rows[2][1] == f"file://nfs_01/tmp/nfs/m/tp1/2_{second}.k3y5id00?blkid=1&size=1024"


def test_specs_of_different_sizes_are_allocated_one_by_one():
    rows = build_uris(nfs(4), "m", [TP0, BIG], [1, 2], "k3y5id00")
    first, second = run_hash("m/tp0/1", "m/tp0/2"), run_hash("m/big/1", "m/big/2")
    assert rows[1] == [
        f"file://nfs_01/tmp/nfs/m/tp0/1_{first}.k3y5id00?blkid=1&size=1024",
        f"file://nfs_01/tmp/nfs/m/big/1_{second}.k3y5id00?blkid=1&size=4096",
    ]


def test_3fs_lies_under_mountpoint_and_root_dir():
    spec = {"mountpoint": "/3fs/", "root_dir": "/cache/", "key_count_per_file": 1}
    hf3fs = StorageEntry("hot", 2, StorageType.HF3FS, spec)
    assert build_uris(hf3fs, "m", [TP0], [16], "k3y5id00") == [
        ["hf3fs://hot/3fs/cache/m/tp0/10.k3y5id00?size=1024"]
    ]


def test_mooncake_carries_its_key_as_a_parameter():
    store = StorageEntry("mc", 3, StorageType.MOONCAKE, {})
    assert build_uris(store, "m", [TP0], [16], "k3y5id00") == [
        ["mooncake://mc/?key=m/tp0/10.k3y5id00&size=1024"]
    ]


def test_a_client_reads_back_what_was_built():
    uri = parse_uri("file://nfs_01/tmp/nfs/m/tp0/1_ab.k3y5id00?blkid=3&size=1024")
    assert (uri.scheme, uri.storage, uri.path) == ("file", "nfs_01", "/tmp/nfs/m/tp0/1_ab.k3y5id00")
    assert (uri.slot, uri.size, uri.offset) == (3, 1024, 3072)


@pytest.mark.parametrize(
    "text", ["", "file:/x", "://x", "file:///x?size=1", "file://s/x?size=-1", "file://s/x?size=a"]
)
def test_what_is_no_data_uri_is_refused(text):
    with pytest.raises(ValueError, match="data URI|numbers"):
        parse_uri(text)


@pytest.mark.parametrize("slots", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [1, 2, 7, 16])
@pytest.mark.parametrize("specs", [[TP0], [TP0, TP1], [TP0, BIG]])
def test_slots_in_file_is_what_was_really_placed(slots, count, specs):
    """The deleter computes the number of slots of a file; here they are simply counted."""
    rows = build_uris(nfs(slots), "m", specs, list(range(1, count + 1)), "k3y5id00")
    placed: dict[str, int] = {}
    for row in rows:
        for text in row:
            placed[parse_uri(text).path] = placed.get(parse_uri(text).path, 0) + 1
    is_joint = len({spec.size for spec in specs}) == 1
    for index, row in enumerate(rows):
        for spec_index, text in enumerate(row):
            position = SlotPosition(index, count, slots)
            assert position.slots_in_file(spec_index, len(specs), is_joint) == placed[parse_uri(text).path]
