"""The whole platform stopped, killed and started again on its data."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvcm_platform.client import BlockingMetadataClient, Connection, Registration
from kvcm_platform.core.registry import LocationSpecInfo, ModelDeployment
from tests.support.platform_process import PlatformProcess, short_data_dir, wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

KEYS = list(range(500, 532))


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with short_data_dir() as folder:
        yield folder


def start(folder: Path, **variables: str) -> tuple[PlatformProcess, float]:
    began = time.monotonic()
    platform = PlatformProcess(["manage.py", "up"], folder, **variables)
    try:
        platform.wait_until_ready(120)
    except AssertionError:
        platform.end()
        raise
    return platform, time.monotonic() - began


def client_of(platform: PlatformProcess) -> BlockingMetadataClient:
    return BlockingMetadataClient(
        Connection(f"127.0.0.1:{platform.port('KVCM_META_RPC_PORT')}", timeout_seconds=5)
    )


def variables_of(platform: PlatformProcess) -> dict[str, str]:
    kept = ("_PORT", "DATABASE_URL")
    return {name: value for name, value in platform.environment.items() if name.endswith(kept)}


@pytest.mark.parametrize("database", ["", "embedded-postgres"], ids=["sqlite", "postgres"])
def test_data_outlives_a_stop_and_a_kill(data_dir: Path, database: str) -> None:
    registration = Registration(
        instance_group="default",
        instance_id="kept",
        block_size=16,
        location_spec_infos=(LocationSpecInfo("tp0", 4096),),
        model_deployment=ModelDeployment("Qwen3", "fp8", tp_size=1),
    )
    first, first_seconds = start(data_dir, DATABASE_URL=database)
    try:
        with client_of(first) as client:
            client.register_instance(registration)
            started = client.start_write("kept", KEYS)
            client.finish_write("kept", started.session_id, len(started.to_write_indexes))
        began = time.monotonic()
        assert first.stop() == 0
        stop_seconds = time.monotonic() - began
        assert first.others() == {}
    finally:
        first.end()

    second, second_seconds = start(data_dir, **variables_of(first))
    try:
        assert "admin / (as before)" in second.text
        with client_of(second) as client:
            assert len(client.get_cache_location("kept", KEYS)) == len(KEYS)
        second.stop(signal.SIGKILL)
        wait_for(lambda: not second.others(), 40, "a killed supervisor leaves nothing behind")
    finally:
        second.end()

    third, third_seconds = start(data_dir, **variables_of(first))
    try:
        with client_of(third) as client:
            assert len(client.get_cache_location("kept", KEYS)) == len(KEYS)
    finally:
        third.end()
    assert stop_seconds < 30
    print(
        f"first start {first_seconds:.1f} s, second {second_seconds:.1f} s, "
        f"after a kill {third_seconds:.1f} s, stop {stop_seconds:.1f} s"
    )
