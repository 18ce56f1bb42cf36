"""The whole platform with its index in the metadata process: Redis dies, an instance goes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from kvcm_platform.client import BlockingMetadataClient, Connection, Registration
from kvcm_platform.core.registry import LocationSpecInfo, ModelDeployment
from kvcm_platform.index import keyspace
from kvcm_platform.settings.env import Env
from kvcm_platform.storage import marker
from tests.support.objects import write_blocks
from tests.support.platform_process import ROOT, PlatformProcess, get_status, short_data_dir, wait_for

KEYS = list(range(1, 200))
REGISTRATION = Registration(
    instance_group="default",
    instance_id="resident",
    block_size=16,
    location_spec_infos=(LocationSpecInfo("tp0", 8192),),
    model_deployment=ModelDeployment("Qwen3", "fp8", tp_size=1),
)
REMOVE = """
from apps.common.actor import Actor, Role
from apps.instances.services import instance_remove
instance_remove(acting=Actor("admin", Role.ADMIN), instance_id="resident")
"""


@pytest.fixture
def platform() -> Iterator[PlatformProcess]:
    with short_data_dir() as folder:
        process = PlatformProcess(
            ["manage.py", "up"],
            folder,
            KVCM_ADMIN_PASSWORD="the first password",
            KVCM_METADATA_WORKERS="1",
            KVCM_INDEX_BACKEND="rocksdb",
        )
        try:
            process.wait_until_ready()
            yield process
        finally:
            process.end()


def manage(platform: PlatformProcess, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT,
        env=platform.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def slot_files(folder: Path) -> list[Path]:
    return [p for p in (folder / "nfs_01").rglob("*") if p.is_file() and p.name != marker.MARKER]


def is_ready(platform: PlatformProcess) -> bool:
    return get_status(f"http://127.0.0.1:{platform.port('KVCM_WEB_PORT')}/healthz/ready") == 200


@pytest.mark.long
@pytest.mark.timeout(900)
def test_an_index_in_the_process_from_first_write_to_last_file(platform: PlatformProcess) -> None:
    client = redis.Redis.from_url(Env(platform.environment).redis_url)
    address = f"127.0.0.1:{platform.port('KVCM_META_RPC_PORT')}"
    with BlockingMetadataClient(Connection(address, timeout_seconds=5)) as engine:
        engine.register_instance(REGISTRATION)
        write_blocks(engine, "resident", KEYS)
        assert len(engine.get_cache_location("resident", KEYS)) == len(KEYS)
        assert "stop the metadata process first" in manage(platform, "recount").stderr

        children = map(json.loads, client.hvals(keyspace.SUPERVISOR))
        valkey = next(child for child in children if child["name"] == "valkey")
        os.kill(valkey["pid"], signal.SIGKILL)
        served = 0
        while served < 500 or not is_ready(platform):
            assert len(engine.get_cache_location("resident", KEYS)) == len(KEYS)
            served += 1

        assert manage(platform, "shell", "-c", REMOVE).returncode == 0
        wait_for(lambda: slot_files(platform.data_dir) == [], 20, "the files go")
        wait_for(lambda: client.hlen(keyspace.LEAVING) == 0, 60, "nothing is left of the instance")
        kept = [name for name in client.scan_iter("{*") if not name.startswith((b"{kvcm", b"{g:"))]
        assert kept == []
        assert {int(amount) for amount in client.hvals(keyspace.group(1))} == {0}
    client.close()
