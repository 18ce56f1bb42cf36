"""What every type of storage must do (storage.backend), with real storages of all types."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from kvcm_platform.core.types import URI_SCHEME, StorageType
from kvcm_platform.core.uris import object_name, parse_uri
from kvcm_platform.core.validation.values import check_key_part
from kvcm_platform.storage.backend import DataStorageBackend, FreedObject
from kvcm_platform.storage.marker import MARKER
from kvcm_platform.storage.probe import ProbeResult, probe
from kvcm_platform.storage.registry import KINDS
from tests.support.eventually import eventually
from tests.support.storages import BENCHES, BLOCK, HANGING, OWNER, DirectoryBench, StorageBench

SECONDS = 3.0


def opened(bench: StorageBench) -> ProbeResult:
    return probe(bench.entry, may_create_root=True, seconds=SECONDS, owner=OWNER)


@pytest.fixture(params=BENCHES)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StorageBench]:
    with BENCHES[request.param](tmp_path) as made:
        # A client of a store takes its time to start where many tests run at once.
        eventually(lambda: opened(made).is_ok, seconds=30)
        yield made


@pytest.fixture
def directory(bench: StorageBench) -> DirectoryBench:
    if not isinstance(bench, DirectoryBench):
        pytest.fail("asked for a storage without paths")
    return bench


@pytest_asyncio.fixture
async def backend(bench: StorageBench) -> AsyncIterator[DataStorageBackend]:
    made = bench.backend()
    await made.open()
    yield made
    await made.close()


def content(at: int, size: int = BLOCK) -> bytes:
    return bytes([at + 1]) * size


def write(bench: StorageBench, uris: list[str]) -> None:
    assert bench.transfers.write_batch([(uri, content(at)) for at, uri in enumerate(uris)]) == [None] * len(
        uris
    )


def freed(uris: list[str], per_file: int = 1, **more: bool) -> list[FreedObject]:
    return [FreedObject(parse_uri(uri), per_file, **more) for uri in uris]


def slots(bench: StorageBench) -> int:
    return int(bench.entry.spec.get("key_count_per_file", 1))


async def test_what_was_written_is_there_until_it_is_deleted(bench, backend):
    uris = bench.places(8)
    assert {uri.partition("://")[0] for uri in uris} == {URI_SCHEME[bench.entry.type]}
    assert await backend.exist([parse_uri(uri) for uri in uris]) == [False] * 8
    write(bench, uris)
    assert await backend.exist([parse_uri(uri) for uri in uris]) == [True] * 8
    assert bench.transfers.read_batch(uris) == [content(at) for at in range(8)]
    gone, kept = uris[1::2], uris[0::2]
    assert await backend.delete(freed(gone, slots(bench))) == [""] * 4
    assert await backend.exist([parse_uri(uri) for uri in gone]) == [False] * 4
    assert await backend.exist([parse_uri(uri) for uri in kept]) == [True] * 4
    assert bench.transfers.read_batch(kept) == [content(at) for at in range(0, 8, 2)], "neighbours"


async def test_deleting_again_and_deleting_nothing_is_harmless(bench, backend):
    uris, never = bench.places(4), bench.places(4)
    write(bench, uris)
    for _ in range(2):
        assert await backend.delete(freed(uris, slots(bench))) == [""] * 4
    assert await backend.delete(freed(never, slots(bench))) == [""] * 4
    await backend.settled(freed(uris + never, slots(bench)))
    assert bench.stored_names() == set()
    assert bench.ledger.freed == {}


async def test_a_failed_write_leaves_nothing_whenever_its_writer_comes(bench, backend):
    """The first pass may find half a write, the second what a late writer left."""
    uris = bench.places(4)
    write(bench, uris[:2])
    assert await backend.delete(freed(uris, slots(bench), was_served=False)) == [""] * 4
    await backend.settled(freed(uris, slots(bench), was_served=False))
    bench.transfers.write_batch([(uris[3], content(3))])
    second = freed(uris, slots(bench), was_served=False, is_second_pass=True)
    assert await backend.delete(second) == [""] * 4
    await backend.settled(second)
    assert await backend.exist([parse_uri(uri) for uri in uris]) == [False] * 4
    assert bench.stored_names() == set()


async def test_objects_are_exactly_what_is_there(bench, backend):
    assert [found async for found in backend.objects()] == []
    started = time.time() - 1
    uris = bench.places(9) + bench.places(3, instance_id="team/model-b")
    write(bench, uris)
    found = [one async for one in backend.objects()]
    assert sorted(one.name for one in found) == sorted({object_name(parse_uri(uri)) for uri in uris})
    assert {one.name for one in found} == bench.stored_names()
    assert all(one.is_ours for one in found)
    assert {one.instance_id for one in found} in ({"model-a", "team/model-b"}, {""})
    sizes = sum(one.size_bytes for one in found)
    assert sizes >= BLOCK * len(uris) or (not isinstance(bench, DirectoryBench) and sizes == 0)
    if bench.capabilities.keeps_write_times:
        assert all(started < one.written_at < time.time() + 1 for one in found)
    else:
        assert [one.written_at for one in found] == [None] * len(found)
    reasons = await backend.delete([FreedObject(one.uri) for one in found])
    assert reasons == [""] * len(found), "what is listed can be deleted as it is"
    assert [one async for one in backend.objects()] == []


async def test_a_storage_carries_one_name(bench, backend):
    assert await backend.claim(OWNER) == OWNER
    again = bench.backend()
    named = await again.claim("other/bench")
    await again.close()
    assert named in (OWNER, "other/bench")
    if isinstance(bench, DirectoryBench):
        assert named == OWNER


async def test_a_probe_says_what_the_type_declares(bench, backend):
    result = probe(bench.entry, seconds=SECONDS)
    assert (result.is_ok, result.message, result.is_full) == (True, "", False)
    assert result.latency_ms is not None
    assert 0 < result.latency_ms < SECONDS * 1000
    ratio = await backend.usage_ratio()
    if bench.capabilities.has_capacity:
        assert result.capacity_bytes is not None
        assert result.used_bytes is not None
        assert 0 <= result.used_bytes <= result.capacity_bytes
        assert ratio is not None
        assert 0 <= ratio <= 1
    else:
        assert (result.used_bytes, result.capacity_bytes, ratio) == (None, None, None)
    assert bool(result.segments) == bench.capabilities.has_segments
    assert probe(bench.entry, seconds=SECONDS).content_life == result.content_life, "it is the same life"
    assert bench.stored_names() == set(), "a probe leaves nothing"


async def test_a_storage_that_is_away(bench, backend):
    uris = bench.places(4)
    write(bench, uris)
    bench.take_away()
    started = time.monotonic()
    result = probe(bench.entry, seconds=SECONDS)
    assert (result.is_ok, result.is_full) == (False, False)
    assert result.message
    assert time.monotonic() - started < SECONDS + 1
    if not isinstance(bench, DirectoryBench) or bench.entry.type is not StorageType.VCNS_HF3FS:
        with pytest.raises(OSError):
            await backend.exist([parse_uri(uri) for uri in uris])
        assert all(await backend.delete(freed(uris, slots(bench)))), "finding nothing is not success"
    bench.bring_back()
    eventually(lambda: probe(bench.entry, seconds=SECONDS).is_ok)


@pytest.mark.parametrize("kind", HANGING)
async def test_a_storage_that_hangs_costs_its_time_limit_once(kind, tmp_path):
    with HANGING[kind](tmp_path) as bench:
        assert probe(bench.entry, may_create_root=True, seconds=SECONDS).is_ok
        bench.hang()
        started = time.monotonic()
        assert "no answer within 0" in probe(bench.entry, seconds=0.5).message
        # Calls over the network end in time; what hangs in a file system is not tried again.
        again = "still hangs" if isinstance(bench, DirectoryBench) else "no answer within 0"
        assert again in probe(bench.entry, seconds=0.5).message
        assert time.monotonic() - started < SECONDS
        bench.go_on()
        eventually(lambda: probe(bench.entry, seconds=SECONDS).is_ok)


async def test_a_space_that_is_freed_is_seen_to_be(bench, backend):
    if not bench.capabilities.can_punch_holes or slots(bench) == 1:
        return
    uris = bench.places(4)
    write(bench, uris)
    path = parse_uri(uris[0]).path
    before = os.stat(path)
    assert await backend.delete(freed(uris[1:3], 4)) == ["", ""]
    after = os.stat(path)
    assert before.st_blocks - after.st_blocks >= 2 * BLOCK // 512
    assert after.st_size == before.st_size
    assert bench.transfers.read_batch([uris[0], uris[3]]) == [content(0), content(3)]


def test_every_type_of_the_registry_is_held_to_this() -> None:
    assert set(HANGING) >= {kind.value for kind in KINDS}
    assert {name.partition(",")[0] for name in BENCHES} == {kind.value for kind in KINDS}


# Directories alone -----------------------------------------------------------------------------

DIRECTORIES = [name for name in BENCHES if name.partition(",")[0] in {"nfs", "hf3fs", "vcns_hf3fs", "dummy"}]
on_directories = pytest.mark.parametrize("bench", DIRECTORIES, indirect=True)


@on_directories
async def test_paths_that_lead_out_are_refused(directory, backend, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    victim = outside / "12.00000001"
    victim.write_bytes(content(0))
    root = directory.root
    (root / "model-a").mkdir()
    (root / "model-a/tp0").symlink_to(outside)
    (root / "12.00000001").symlink_to(victim)
    (root / "through").symlink_to(tmp_path)
    sample = parse_uri(directory.places(1)[0])
    paths = [
        f"{root}/../../outside/12.00000001",
        f"{root}/model-a/./../../../outside/12.00000001",
        f"{root}/model-a/tp0/12.00000001",
        f"{root}/through/outside/12.00000001",
        str(victim),
        f"{root}-aside/12.00000001",
    ]
    for path in paths:
        uri = replace(sample, path=path, size=BLOCK)
        for per_file in (1, 4):
            (reason,) = await backend.delete([FreedObject(uri, per_file)])
            assert reason, path
        assert await backend.exist([uri]) == [False]
    linked = replace(sample, path=f"{root}/12.00000001", size=BLOCK)
    assert await backend.exist([linked]) == [False]
    await backend.delete([FreedObject(linked, 4)])
    await backend.delete([FreedObject(linked)])
    assert victim.read_bytes() == content(0)


@on_directories
@pytest.mark.parametrize(
    "instance_id",
    ["модель-ß-模型", "a..b", "...", "team/a.b/c", "x" * 255, "-rf", "$HOME", "'q\"`;|*", "~", "é" * 127],
)
async def test_unusual_instance_ids(directory, backend, instance_id):
    check_key_part(instance_id, field="instance_id", may_nest=True)
    uris = directory.places(2, instance_id=instance_id)
    write(directory, uris)
    assert [one.instance_id async for one in backend.objects() if one.is_ours][0] == instance_id
    assert directory.transfers.read_batch(uris) == [content(0), content(1)]
    in_file = min(2, slots(directory))
    assert await backend.delete(freed(uris, in_file)) == ["", ""]
    assert directory.stored_names() == set()


@on_directories
async def test_the_marker_says_whose_it_is(directory, backend):
    path = directory.root / MARKER
    assert OWNER in path.read_text()
    life = probe(directory.entry, seconds=SECONDS).content_life
    assert life
    path.unlink()
    assert "is the storage mounted?" in probe(directory.entry, seconds=SECONDS).message
    assert probe(directory.entry, may_create_root=True, seconds=SECONDS, owner="new/bench").is_ok
    assert probe(directory.entry, seconds=SECONDS).content_life != life, "nobody knows what is left there"
    path.write_bytes(b"")
    assert probe(directory.entry, seconds=SECONDS).is_ok, "markers of earlier versions are empty"
    assert await backend.claim(OWNER) == OWNER
