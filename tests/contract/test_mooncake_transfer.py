"""Bytes through a real Mooncake store, and what becomes of calls when it hangs, dies or comes back."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from kvcm_platform.core.storage_configs import storage_configs
from kvcm_platform.transfer import TransferError, TransferOptions, Transfers, block_checksum
from kvcm_platform.transfer.mooncake import MooncakeTransfer
from kvcm_platform.transfer.mooncake_client import StoreClient
from kvcm_platform.transfer.mooncake_store import StoreAway, StoreSettings
from tests.support.eventually import eventually
from tests.support.mooncake import MooncakeMaster, running_mooncake

CALL_SECONDS = 2.0


def uri(key: str, size: int) -> str:
    return f"mooncake://moon/?key={key}&size={size}"


def fresh(count: int, size: int) -> list[tuple[str, bytes]]:
    run = secrets.token_hex(6)
    return [(uri(f"i/tp0/{at:x}.{run}", size), secrets.token_bytes(size)) for at in range(count)]


def reason(result: object) -> str:
    assert isinstance(result, TransferError), result
    return result.reason


@pytest.fixture
def settings(mooncake: MooncakeMaster) -> StoreSettings:
    return StoreSettings.of(mooncake.spec)


@pytest.fixture
def transfer(settings: StoreSettings) -> Iterator[MooncakeTransfer]:
    made = MooncakeTransfer(settings, call_seconds=10, window_bytes=1 << 20)
    yield made
    made.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[MooncakeMaster]:
    with running_mooncake(tmp_path) as master:
        yield master


def test_what_was_put_is_what_is_got(transfer: MooncakeTransfer) -> None:
    blocks = fresh(40, 100_000)
    assert transfer.write_batch(blocks) == [None] * 40
    uris = [name for name, _ in blocks]
    assert transfer.read_batch(uris) == [data for _, data in blocks]
    sums = [block_checksum(data) for _, data in blocks]
    sums[7] += 1
    found = transfer.read_batch(uris, sums)
    assert "checksum" in reason(found[7])
    assert found[8] == blocks[8][1]


def test_each_bad_block_is_its_own_failure(transfer: MooncakeTransfer) -> None:
    (good, data), (missing, _) = fresh(2, 4096)
    assert transfer.write_batch([(good, data)]) == [None]
    found = transfer.read_batch(
        [missing, good, good.replace("4096", "4095"), good.replace("4096", "8192"), "file://moon/x?size=4"]
    )
    assert "not there" in reason(found[0])
    assert found[1] == data
    assert "code -600" in reason(found[2])
    assert "4096 bytes instead of 8192" in reason(found[3])
    assert "scheme file" in reason(found[4])
    too_large = transfer.write_batch([(uri("large", 2 << 20), bytes(2 << 20)), (good, data)])
    assert "larger than the transfer's buffer" in reason(too_large[0])
    with pytest.raises(ValueError, match="5 bytes for a block of 4"):
        transfer.write_batch([(uri("odd", 4), b"12345")])


def test_threads_share_one_client(transfer: MooncakeTransfer) -> None:
    failures: list[object] = []

    def work() -> None:
        for _ in range(5):
            blocks = fresh(20, 60_000)
            if transfer.write_batch(blocks) != [None] * 20:
                failures.append("write")
            if transfer.read_batch([name for name, _ in blocks]) != [data for _, data in blocks]:
                failures.append("read")

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(children()) == 1


def test_an_engine_gets_there_by_what_its_registration_says(mooncake: MooncakeMaster, tmp_path: Path) -> None:
    text = storage_configs([mooncake.storage("moon")])
    with Transfers.from_storage_configs(text, options=TransferOptions(root=tmp_path)) as transfers:
        ((name, data),) = fresh(1, 50_000)
        transfers.write(name, data)
        assert transfers.read(name, block_checksum(data)) == data


def test_a_hung_master_costs_the_time_limit_and_then_nothing(own: MooncakeMaster) -> None:
    transfer = MooncakeTransfer(StoreSettings.of(own.spec), call_seconds=CALL_SECONDS)
    try:
        blocks = fresh(2, 1000)
        assert transfer.write_batch(blocks) == [None, None]
        uris = [name for name, _ in blocks]
        own.stop_answering()
        began = time.monotonic()
        assert "no answer" in reason(transfer.read_batch(uris)[1])
        assert time.monotonic() - began < 3 * CALL_SECONDS
        began = time.monotonic()
        assert "the next try is soon" in reason(transfer.read_batch(uris)[0])
        assert time.monotonic() - began < CALL_SECONDS / 2
        # From now on one of all who ask waits for the store, for its time limit at most.
        waits = []
        while time.monotonic() < began + 4 * CALL_SECONDS:
            since = time.monotonic()
            threads = [threading.Thread(target=lambda: transfer.read_batch(uris)) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads[1:]:
                thread.join()
            waits.append(time.monotonic() - since)
            threads[0].join()
        assert max(waits) < 3 * CALL_SECONDS
        # The span has room for four tries at most: whoever asks meanwhile is answered at once.
        tries = sum(one > CALL_SECONDS / 2 for one in waits)
        assert tries <= 4
        assert len(waits) > tries
        own.go_on()
        eventually(lambda: transfer.read_batch(uris) == [data for _, data in blocks], seconds=30)
    finally:
        own.go_on()
        transfer.close()


def test_a_restarted_master_is_found_again_without_its_objects(own: MooncakeMaster) -> None:
    transfer = MooncakeTransfer(StoreSettings.of(own.spec), call_seconds=10)
    try:
        blocks = fresh(2, 1000)
        assert transfer.write_batch(blocks) == [None, None]
        own.restart()
        again = fresh(2, 1000)
        eventually(lambda: transfer.write_batch(again) == [None, None], seconds=30)
        found = transfer.read_batch([blocks[0][0], again[0][0]])
        assert "not there" in reason(found[0])
        assert found[1] == again[0][1]
    finally:
        transfer.close()


class TestTheChild:
    def test_one_that_dies_costs_a_call(self, settings: StoreSettings) -> None:
        client = StoreClient(settings)
        try:
            assert client.call("exist", ["nothing"], 10) == [0]
            (first,) = children()
            os.kill(first, signal.SIGSEGV)
            with pytest.raises(StoreAway, match="died|gone|ended"):
                while True:
                    client.call("exist", ["nothing"], 10)
            eventually(lambda: answers(client), seconds=10)
            assert children() != [first]
        finally:
            client.close()
        eventually(lambda: children() == [], seconds=10)

    def test_one_that_hangs_is_killed(self, settings: StoreSettings) -> None:
        client = StoreClient(settings)
        try:
            assert client.call("exist", ["nothing"], 10) == [0]
            (first,) = children()
            os.kill(first, signal.SIGSTOP)
            began = time.monotonic()
            with pytest.raises(StoreAway, match="no answer of the store within 0.5 s"):
                client.call("exist", ["nothing"], 0.5)
            assert time.monotonic() - began < 1
            eventually(lambda: answers(client), seconds=10)
            eventually(lambda: first not in children(), seconds=10)
        finally:
            client.close()

    def test_calls_on_one_that_does_not_even_read_end_in_time(self, settings: StoreSettings) -> None:
        client = StoreClient(settings)
        keys = [f"{'k' * 1000}{at}" for at in range(300)]
        try:
            assert client.call("exist", keys, 10) == [0] * 300
            (first,) = children()
            os.kill(first, signal.SIGSTOP)
            began = time.monotonic()

            def call() -> None:
                with pytest.raises(StoreAway):
                    client.call("exist", keys, 1.0)

            threads = [threading.Thread(target=call) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(40)
            assert time.monotonic() - began < 4
            eventually(lambda: answers(client), seconds=20)
        finally:
            client.close()

    def test_it_ends_with_its_parent(self, settings: StoreSettings) -> None:
        program = (
            "import sys, json\n"
            "from kvcm_platform.transfer.mooncake_client import StoreClient\n"
            "from kvcm_platform.transfer.mooncake_store import StoreSettings\n"
            "client = StoreClient(StoreSettings.of(json.loads(sys.argv[1])))\n"
            "client.call('exist', ['x'], 20)\n"
            "print('ready', flush=True)\n"
            "sys.stdin.read()\n"
        )
        parent = subprocess.Popen(
            [sys.executable, "-c", program, json.dumps(asdict(settings))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert parent.stdout is not None and parent.stdout.readline() == b"ready\n"
        (child,) = children(parent.pid)
        parent.kill()
        parent.wait()
        for pipe in (parent.stdin, parent.stdout):
            assert pipe is not None
            pipe.close()
        eventually(lambda: not Path(f"/proc/{child}").exists(), seconds=10)

    def test_a_missing_system_library_is_a_reason(
        self, settings: StoreSettings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        package = tmp_path / "mooncake"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "store.py").write_text(
            "raise ImportError('libibverbs.so.1: cannot open shared object file: No such file or directory')"
        )
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        client = StoreClient(settings)
        with pytest.raises(StoreAway, match=r"needs the system library libibverbs\.so\.1"):
            client.call("exist", ["x"], 10)
        client.close()


def answers(client: StoreClient) -> bool:
    try:
        return client.call("exist", ["nothing"], 10) == [0]
    except StoreAway:
        return False


def _content(path: Path) -> bytes:
    """Of a file of /proc; empty once the thread or process is gone."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def children(parent: int = os.getpid()) -> list[int]:
    """Store clients that a process started."""
    found = []
    for task in Path(f"/proc/{parent}/task").iterdir():
        for pid in _content(task / "children").split():
            if b"mooncake_process" in _content(Path(f"/proc/{int(pid)}/cmdline")):
                found.append(int(pid))
    return found
