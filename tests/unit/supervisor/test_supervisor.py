"""The supervisor from outside: a real process with real children, ended in every way."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from kvcm_platform.index import keyspace
from kvcm_platform.settings.env import Env
from tests.support.platform_process import PlatformProcess, short_data_dir, wait_for

STAND_IN = str(Path(__file__).with_name("stand_in.py"))

Start = Callable[..., PlatformProcess]


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with short_data_dir() as folder:
        yield folder


@pytest.fixture
def start(data_dir: Path) -> Iterator[Start]:
    started: list[PlatformProcess] = []

    def begin(*arguments: str, folder: Path = data_dir, **variables: str) -> PlatformProcess:
        process = PlatformProcess([STAND_IN, *arguments], folder, **variables)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.end()


def client_of(platform: PlatformProcess) -> redis.Redis:
    return redis.Redis.from_url(Env(platform.environment).redis_url)


def children_of(platform: PlatformProcess) -> dict[str, dict[str, object]]:
    """What the supervisor publishes, by child."""
    values = client_of(platform).hvals(keyspace.SUPERVISOR)
    return {child["name"]: child for child in map(json.loads, values)}


def test_says_where_everything_answers_and_shows_a_new_password(start: Start) -> None:
    platform = start()
    platform.wait_until_ready()
    platform.wait_for_line(f"http://127.0.0.1:{platform.port('KVCM_WEB_PORT')}/", 5)
    platform.wait_for_line("admin / made-just-now", 5)
    platform.wait_for_line(str(platform.data_dir), 5)


def test_a_later_start_keeps_the_data_and_shows_no_password(start: Start, data_dir: Path) -> None:
    first = start()
    first.wait_until_ready()
    client_of(first).set("kept", "yes")
    assert first.stop() == 0
    (data_dir / "prepared").touch()

    second = start()
    second.wait_until_ready()
    second.wait_for_line("admin / (as before)", 5)
    assert client_of(second).get("kept") == b"yes"


def test_children_do_not_get_the_admin_password(start: Start, data_dir: Path) -> None:
    platform = start(KVCM_ADMIN_PASSWORD="chosen by the operator")
    platform.wait_until_ready()
    assert (data_dir / "logs" / "worker.log").read_text().startswith("starting")


@pytest.mark.parametrize("name", ["metadata-1", "worker", "valkey"])
def test_a_killed_child_is_started_again(start: Start, name: str) -> None:
    platform = start()
    platform.wait_until_ready()
    old = children_of(platform)[name]
    os.kill(int(str(old["pid"])), signal.SIGKILL)

    def restarted() -> bool:
        try:
            child = children_of(platform)[name]
        except redis.RedisError:
            return False
        return child["pid"] not in (None, old["pid"]) and child["state"] == "ready"

    wait_for(restarted, 40, f"{name} is back")
    assert children_of(platform)[name]["restarts"] == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_orderly_stop_leaves_nothing_behind(start: Start, number: signal.Signals) -> None:
    platform = start()
    platform.wait_until_ready()
    assert len(platform.others()) == 4
    began = time.monotonic()
    assert platform.stop(number) == 0
    assert time.monotonic() - began < 30
    assert platform.others() == {}


def test_a_child_that_ignores_the_request_is_killed_in_time(start: Start) -> None:
    platform = start(STAND_IN_CONTROL="stubborn")
    platform.wait_until_ready()
    began = time.monotonic()
    assert platform.stop() == 0
    assert time.monotonic() - began < 30
    assert platform.others() == {}
    assert "control | WARNING did not stop" in platform.text


def test_a_killed_supervisor_leaves_nothing_behind(start: Start) -> None:
    platform = start()
    platform.wait_until_ready()
    platform.stop(signal.SIGKILL)
    wait_for(lambda: not platform.others(), 20, "all children are gone")


def test_starts_again_right_after_it_was_killed(start: Start) -> None:
    platform = start()
    platform.wait_until_ready()
    client_of(platform).set("kept", "yes")
    time.sleep(1.1)  # What everysec promises: older than a second is on the disk.
    platform.stop(signal.SIGKILL)
    again = start(**{name: value for name, value in platform.environment.items() if name.endswith("_PORT")})
    again.wait_until_ready()
    assert client_of(again).get("kept") == b"yes"


def test_a_child_that_keeps_dying_ends_the_whole(start: Start) -> None:
    platform = start(STAND_IN_CONTROL="crash")
    assert platform.process.wait(60) == 1
    wait_for(lambda: "Everything stops now" in platform.text, 40, "the reason is printed")
    assert "control died 6 times without becoming ready" in platform.text
    assert "ERROR the reason it dies" in platform.text
    assert platform.others() == {}


def test_names_the_port_that_is_taken_its_variable_and_the_holder(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        platform = start(KVCM_META_RPC_PORT=str(port))
        assert platform.process.wait(30) == 1
        wait_for(lambda: platform.output, 40, "a sentence")
        assert f"Port {port} is taken by" in platform.text
        assert f"pid {os.getpid()}" in platform.text
        assert "KVCM_META_RPC_PORT" in platform.text
    assert len(platform.output) == 1


def test_refuses_one_port_for_two_purposes(start: Start) -> None:
    platform = start(KVCM_META_RPC_PORT="7001", KVCM_ADMIN_RPC_PORT="7001")
    assert platform.process.wait(30) == 1
    wait_for(lambda: "KVCM_ADMIN_RPC_PORT and KVCM_META_RPC_PORT" in platform.text, 40, "both names")


def test_refuses_a_port_that_the_debug_service_needs(start: Start) -> None:
    ports = {"KVCM_META_HTTP_PORT": "7001", "KVCM_ADMIN_RPC_PORT": "10001"}
    platform = start(KVCM_DEBUG_SERVICE="1", **ports)
    assert platform.process.wait(30) == 1
    wait_for(lambda: "KVCM_DEBUG_SERVICE needs port 10001" in platform.text, 40, "the port and its reason")


def test_refuses_a_data_directory_that_cannot_be_written(start: Start) -> None:
    platform = start(folder=Path("/proc/kvcm-data"))
    assert platform.process.wait(30) == 1
    wait_for(lambda: "KVCM_DATA_DIR" in platform.text, 40, "the variable's name")
    assert len(platform.output) == 1


def test_refuses_a_bad_variable_in_one_sentence(start: Start) -> None:
    platform = start(KVCM_METADATA_WORKERS="many")
    assert platform.process.wait(30) == 1
    wait_for(lambda: "KVCM_METADATA_WORKERS='many'" in platform.text, 40, "the variable's name")
    assert len(platform.output) == 1


def test_refuses_a_second_supervisor_on_the_same_data(start: Start) -> None:
    first = start()
    first.wait_until_ready()
    second = start()
    assert second.process.wait(30) == 1
    wait_for(lambda: f"pid {first.process.pid}" in second.text, 40, "the first one's pid")
    assert first.process.poll() is None


def test_an_ephemeral_platform_removes_its_data(start: Start, data_dir: Path) -> None:
    platform = start("--ephemeral", TMPDIR=str(data_dir))
    platform.wait_until_ready()
    line = platform.wait_for_line("Data, logs", 5)
    folder = Path(line.split()[-1])
    assert folder.is_dir() and folder != data_dir
    assert platform.stop() == 0
    assert not folder.exists()


def test_a_long_data_path_moves_the_socket_and_says_so(start: Start, data_dir: Path) -> None:
    folder = data_dir / ("long-" * 24)
    platform = start(folder=folder)
    platform.wait_for_line("too long for a socket", 20)
    platform.wait_until_ready()
    assert client_of(platform).ping()
    assert not (folder / "valkey.sock").exists()
