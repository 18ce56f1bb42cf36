"""A Mooncake storage as the manager sees it: deletion under leases, probes, and objects that vanish."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.uris import DataUri, parse_uri
from kvcm_platform.storage import mooncake as kind
from kvcm_platform.storage.backend import FreedObject, Ledgers, ProbeResult
from kvcm_platform.storage.mooncake import MooncakeBackend
from kvcm_platform.storage.mooncake_clients import CLIENTS, StoreClients
from kvcm_platform.storage.mooncake_marker import KEY
from kvcm_platform.storage.mooncake_master import Master
from kvcm_platform.storage.probe import probe
from kvcm_platform.transfer import Transfers
from kvcm_platform.transfer.mooncake_store import StoreSettings
from tests.support.eventually import eventually, eventually_async
from tests.support.mooncake import LEASE_SECONDS, MooncakeMaster, running_mooncake

from .test_mooncake_transfer import children

SLOTS: Any = None
"""A store has no slot files."""


@pytest.fixture(autouse=True)
def no_clients_left() -> Iterator[None]:
    yield
    CLIENTS.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[MooncakeMaster]:
    with running_mooncake(tmp_path) as master:
        yield master


def put(entry: StorageEntry, count: int, size: int = 1000) -> list[DataUri]:
    run = secrets.token_hex(6)
    uris = [f"mooncake://{entry.name}/?key=i/tp0/{at:x}.{run}&size={size}" for at in range(count)]
    with Transfers.from_entries([entry]) as transfers:
        assert transfers.write_batch([(uri, bytes(size)) for uri in uris]) == [None] * count
    return [parse_uri(uri) for uri in uris]


def get(entry: StorageEntry, uris: Sequence[DataUri]) -> None:
    with Transfers.from_entries([entry]) as transfers:
        names = [f"mooncake://{entry.name}/?key={uri.params['key']}&size={uri.size}" for uri in uris]
        assert all(isinstance(found, bytes) for found in transfers.read_batch(names))


def backend(entry: StorageEntry) -> MooncakeBackend:
    return MooncakeBackend(entry, Ledgers(SLOTS))


async def delete(made: MooncakeBackend, uris: Sequence[DataUri]) -> list[str]:
    return await made.delete([FreedObject(uri) for uri in uris])


async def test_deleting_frees_and_may_be_repeated(mooncake: MooncakeMaster) -> None:
    entry = mooncake.storage()
    made = backend(entry)
    uris = put(entry, 700)
    kept = put(entry, 1)
    assert await delete(made, uris) == [""] * 700
    assert await delete(made, uris) == [""] * 700
    assert await made.exist([*uris[:2], *kept]) == [False, False, True]
    assert not mooncake.object_keys() & {uri.params["key"] for uri in uris}
    assert kept[0].params["key"] in mooncake.object_keys()
    await made.close()


async def test_a_readers_lease_is_waited_for(mooncake: MooncakeMaster) -> None:
    entry = mooncake.storage()
    made = backend(entry)
    uris = put(entry, 3)
    get(entry, uris)
    began = time.monotonic()
    assert await delete(made, uris) == [""] * 3
    assert time.monotonic() - began < LEASE_SECONDS + 20
    await made.close()


async def test_a_long_lease_postpones(tmp_path: Path) -> None:
    with running_mooncake(tmp_path, lease_seconds=30) as master:
        entry = master.storage()
        made = backend(entry)
        leased, free = put(entry, 2), put(entry, 2)
        get(entry, leased)
        began = time.monotonic()
        reasons = await delete(made, [*leased, *free])
        assert time.monotonic() - began < 15
        assert all("lease" in reason for reason in reasons[:2])
        assert reasons[2:] == ["", ""]
        assert {uri.params["key"] for uri in leased} <= master.object_keys()
        await made.close()


async def test_a_dead_client_costs_one_call(mooncake: MooncakeMaster) -> None:
    entry = mooncake.storage()
    made = backend(entry)
    uris = put(entry, 2)
    assert await delete(made, uris[:1]) == [""]
    dying = children()
    for child in dying:
        os.kill(child, signal.SIGABRT)
    # Who started them has noticed once they are gone altogether.
    await eventually_async(lambda: not any(Path(f"/proc/{child}").exists() for child in dying))
    assert await delete(made, uris) == ["", ""]
    assert await made.exist(uris) == [False, False]
    await made.close()


async def test_looking_for_objects_leaves_no_lease(tmp_path: Path) -> None:
    with running_mooncake(tmp_path, lease_seconds=60) as master:
        entry = master.storage()
        made = backend(entry)
        uris = put(entry, 700)
        gone = parse_uri("mooncake://moon/?key=i/tp0/0.gone&size=1")
        assert await made.exist([gone, *uris]) == [False, *[True] * 700]
        began = time.monotonic()
        assert await delete(made, uris) == [""] * 700
        assert time.monotonic() - began < 20, "nothing was waited for"
        await made.close()


@pytest.mark.parametrize("name", ["a,b", "a%2Cb", "a b+c&d=e?f#g", "ü/é", 'say "x"', "long" * 60])
async def test_objects_of_any_name_are_found(mooncake: MooncakeMaster, name: str) -> None:
    entry = mooncake.storage()
    made = backend(entry)
    (plain,) = put(entry, 1)
    run = secrets.token_hex(6)
    keys = [f"{name}/tp0/{at}.{run}" for at in range(300)]
    with CLIENTS.of(StoreSettings.of(entry.spec)) as client, client.window(10) as window:
        assert client.move(window, "put", keys[::2], [1] * 150, 10) == [0] * 150
    uris = [DataUri("mooncake", "moon", "/", 0, 0, {"key": key}) for key in keys]
    assert await made.exist([plain, *uris]) == [True, *[True, False] * 150]
    assert await delete(made, [plain, *uris]) == [""] * 301
    await made.close()


async def test_a_master_that_cannot_be_asked_for_several(
    mooncake: MooncakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older one, one that waits to take over and knows nothing, and something else at its address."""
    entry = mooncake.storage()
    made = backend(entry)
    uris = put(entry, 2)
    for answer in ("[]", '{"data": {}}', '{"data": {"x": 1}}', "not found"):
        monkeypatch.setattr(Master, "_read", lambda *_, answer=answer: answer)
        assert await made.exist([*uris, parse_uri("mooncake://moon/?key=gone&size=1")]) == [True, True, False]
    await made.close()


async def test_a_hung_master_is_left_in_time(own: MooncakeMaster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "CALL_SECONDS", 1.0)
    entry = own.storage()
    made = backend(entry)
    uris = put(entry, 2)
    assert probe(entry).is_ok
    own.stop_answering()
    try:
        began = time.monotonic()
        reasons = await delete(made, uris)
        assert all("no answer" in reason for reason in reasons)
        assert time.monotonic() - began < 15
        began = time.monotonic()
        result = probe(entry)
        assert (result.is_ok, "no answer within 1 s" in result.message) == (False, True)
        assert time.monotonic() - began < 15
        with pytest.raises(OSError):
            await made.exist(uris)
    finally:
        own.go_on()
    eventually(lambda: probe(entry).is_ok, seconds=20)
    # Whether the removal was carried out when the master went on, or is now, is all the same.
    assert await delete(made, uris) == ["", ""]
    assert await made.exist(uris) == [False, False]
    await made.close()


class TestProbe:
    def test_of_one_that_works(self, own: MooncakeMaster) -> None:
        entry = own.storage()
        first = probe(entry, owner="us", may_create_root=True)
        assert (first.is_ok, first.message, first.is_full) == (True, "", False)
        assert first.capacity_bytes == 128 << 20
        assert first.content_life
        put(entry, 20, 1 << 20)
        second = probe(entry)
        assert second.content_life == first.content_life
        assert second.used_bytes is not None and second.used_bytes >= 20 << 20
        assert KEY in own.object_keys()

    def test_it_is_full_before_the_store_evicts(self, tmp_path: Path) -> None:
        with running_mooncake(tmp_path, segment_bytes=16 << 20) as master:
            entry = master.storage()
            put(entry, 12, 1 << 20)
            assert not probe(entry).is_full
            put(entry, 2, 1 << 20)
            result = probe(entry)
            assert (result.is_ok, result.is_full) == (True, True)
            assert "bytes are used" in result.message
            assert len(master.object_keys()) == 15, "nothing was evicted"

    def test_a_trial_leaves_nothing(self, own: MooncakeMaster) -> None:
        result = probe(own.storage(), is_trial=True)
        assert (result.is_ok, result.message, result.content_life) == (True, "", "")
        assert own.object_keys() == set()

    def test_a_restarted_master_has_another_life(self, own: MooncakeMaster) -> None:
        entry = own.storage()
        before = probe(entry)
        own.restart()
        after = self._settled(entry)
        assert after.content_life not in {"", before.content_life}
        assert probe(entry).content_life == after.content_life

    def test_memory_that_left_took_objects_with_it(self, own: MooncakeMaster) -> None:
        entry = own.storage()
        own.add_segment(64 << 20)
        before = self._settled(entry)
        own.kill_one_segment()
        eventually(lambda: len(own.segments()) == 1, seconds=30)
        after = self._settled(entry)
        assert after.content_life not in {"", before.content_life}
        own.add_segment(64 << 20)
        assert probe(entry).content_life == after.content_life, "more memory loses nothing"

    def test_without_memory_it_takes_nothing(self, tmp_path: Path) -> None:
        master = MooncakeMaster(tmp_path)
        try:
            master.start()
            result = probe(master.storage())
            assert (result.is_ok, result.is_full) == (True, True)
            assert result.message == "no process lends memory to the store"
        finally:
            master.close()

    def test_a_master_that_is_gone(self, own: MooncakeMaster) -> None:
        own.kill()
        result = probe(own.storage())
        assert not result.is_ok
        assert "Connection refused" in result.message

    def test_a_device_that_this_host_lacks(self, mooncake: MooncakeMaster) -> None:
        result = probe(mooncake.storage(protocol="rdma", rdma_device="mlx5_9"))
        assert not result.is_ok
        # Whether the store's client gives up in time depends on its retries.
        assert "over rdma mlx5_9" in result.message

    def test_something_else_at_the_port(self, mooncake: MooncakeMaster) -> None:
        entry = mooncake.storage(master_http_entry=f"127.0.0.1:{mooncake.metadata_port}")
        result = probe(entry)
        assert not result.is_ok
        assert "/health answers 404" in result.message or "no Mooncake master" in result.message

    @staticmethod
    def _settled(entry: StorageEntry) -> ProbeResult:
        """A probe that saw the marker; for some seconds clients are still finding their way back."""
        results: list[ProbeResult] = []

        def is_good() -> bool:
            results.append(probe(entry))
            return results[-1].is_ok and not results[-1].is_full

        eventually(is_good, seconds=30)
        return results[-1]


async def test_objects_and_claims(own: MooncakeMaster) -> None:
    entry = own.storage()
    made = backend(entry)
    await made.open()
    uris = put(entry, 3)
    found = [item async for item in made.objects()]
    assert {item.name for item in found} == {uri.params["key"] for uri in uris}
    assert all(item.is_ours for item in found)
    assert await made.claim("us") == "us"
    assert await made.claim("them") == "us"
    assert await delete(made, [item.uri for item in found]) == [""] * 3
    ratio = await made.usage_ratio()
    assert ratio is not None and ratio < 0.01
    await made.close()


async def test_where_the_master_serves_http() -> None:
    spec = {"master_service_entry": "10.0.0.8:50051"}
    entry = MooncakeMaster.storage_of(spec)
    assert Master.of(entry).address == "10.0.0.8:9003"
    assert Master.of(MooncakeMaster.storage_of({**spec, "master_http_entry": "m:81"})).address == "m:81"
    assert (
        Master.of(MooncakeMaster.storage_of({**spec, "master_http_entry": "[::1]"})).address == "[::1]:9003"
    )
    with pytest.raises(ValueError, match="master_http_entry is needed"):
        Master.of(MooncakeMaster.storage_of({"master_service_entry": "etcd://a:1;b:2"}))


def test_clients_are_kept_while_they_are_used(mooncake: MooncakeMaster) -> None:
    clients = StoreClients(idle_seconds=0.5)
    settings = StoreSettings.of(mooncake.spec)
    with clients.of(settings) as first, clients.of(settings) as second:
        assert first is second
        assert first.call("exist", ["x"], 10) == [0]
        assert len(children()) == 1
    eventually(lambda: children() == [], seconds=10)
    with clients.of(settings) as again:
        assert again.call("exist", ["x"], 10) == [0]
    clients.close()
    assert children() == []
