"""A group with a memory pool in front of a directory: cold blocks leave the pool while engines go on."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Platform
from tests.support.mempool import RunningAgent, agent_host, pool_spec
from tests.support.platform_process import ROOT, wait_for
from tests.support.replays import generated_trace, manage, recount, replay, replay_command

BLOCK = 32 << 10
POOL = "64M"


@pytest.fixture(scope="module")
def token(platform: Platform) -> str:
    done = manage(platform.process, "create_token", "--username", "admin", "--name", "tiers")
    return done.stdout.split()[-1]


@pytest.fixture(scope="module")
def agent() -> Iterator[RunningAgent]:
    with agent_host() as host:
        yield host.start(size=POOL)


class Rest:
    def __init__(self, platform: Platform, token: str) -> None:
        self._url, self._token = f"{platform.url}/api/v1/", token

    def __call__(self, path: str, body: Any = None, method: str = "") -> Any:
        request = urllib.request.Request(
            f"{self._url}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
            method=method or ("GET" if body is None else "POST"),
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)


@pytest.fixture(scope="module")
def rest(platform: Platform, token: str, agent: RunningAgent) -> Rest:
    """The storage `pool_01` and the group `tiers` are there; the pool has its segment."""
    call = Rest(platform, token)
    call("storages/", {"name": "pool_01", "type": "tair_mempool", "spec": pool_spec(agent)})
    wait_for(lambda: call("storages/pool_01/")["segments"], 30, "the pool has its segment")
    call(
        "instance-groups/",
        {
            "name": "tiers",
            "storage_candidates": ["pool_01", "nfs_01"],
            "prefer_strategy": "prefer_tair_mempool",
            "quota": {"capacity_bytes": 10**12},
            "meta_indexer": {"max_key_count": 10**7},
            "migration": {
                "source": "pool_01",
                "target": "nfs_01",
                "trigger_ratio": 0.5,
                "low_ratio": 0.3,
                "promote_after_hits": 4,
            },
        },
    )
    return call


@pytest.mark.long
@pytest.mark.timeout(600)
def test_cold_blocks_leave_the_pool_while_engines_go_on(
    platform: Platform, rest: Rest, tmp_path: Path, record_property: Any
) -> None:
    trace = tmp_path / "trace.jsonl"
    generated_trace(trace, requests=600)
    options = ("--group", "tiers", "--instance", "tiered", "--with-data", "--block-bytes", str(BLOCK))
    command = replay_command(platform.process, trace, *options)
    running = subprocess.Popen(
        command,
        cwd=ROOT,
        env=platform.process.environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        wait_for(lambda: copied(rest) > 0 or running.poll() is not None, 120, "blocks leave the pool")
        was_meanwhile = running.poll() is None
        out, said = running.communicate(timeout=400)
    finally:
        running.kill()
    assert running.returncode == 0, said
    done = json.loads(out)
    assert (done["bytes_wrong"], done["errors"], done["write_refused"]) == (0, 0, 0)
    assert was_meanwhile, "the replay was over before the first block left the pool"
    again = replay(platform.process, trace, *options)
    assert (again["bytes_wrong"], again["errors"], again["written_blocks"]) == (0, 0, 0)
    assert again["hit_blocks"] == again["blocks"] == done["blocks"]
    wait_for(lambda: copied(rest, "promotion") > 0, 60, "used blocks come back")
    runs = rest("cache/migrations/?instance_group=tiers&page_size=100")["results"]
    assert sum(run["failed_blocks"] for run in runs) == 0
    recount(platform.process)
    record_property("first", done)
    record_property("again", again)
    record_property("runs", runs)
    print(json.dumps({"first": done, "again": again, "runs": runs}, indent=1))


def copied(rest: Rest, direction: str = "demotion") -> int:
    runs = rest(f"cache/migrations/?instance_group=tiers&direction={direction}")["results"]
    return sum(run["copied_blocks"] for run in runs)
