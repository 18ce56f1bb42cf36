"""The main job on the whole platform: engines save and find real blocks, files and usage agree."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from kvcm_platform.pb import meta_service_pb2 as pb
from tests.e2e.conftest import Platform
from tests.support.platform_process import wait_for
from tests.support.replays import EXPECTED, TRACES, generated_trace, manage, recount, replay

SLOT = 8192


@pytest.fixture(scope="module")
def token(platform: Platform) -> str:
    done = manage(platform.process, "create_token", "--username", "admin", "--name", "replays")
    return done.stdout.split()[-1]


@pytest.fixture(scope="module", autouse=True)
def unlimited(platform: Platform, token: str) -> None:
    """The default quota would refuse part of the traces."""
    group = rest(platform, token, "instance-groups/default/")
    change = {
        "version": group["version"],
        "quota": {"capacity_bytes": 10**15, "per_type": {}},
        "meta_indexer": {"max_key_count": 10**8},
    }
    rest(platform, token, "instance-groups/default/", change)


def rest(platform: Platform, token: str, path: str, change: dict | None = None) -> dict:
    request = urllib.request.Request(
        f"{platform.url}/api/v1/{path}",
        data=None if change is None else json.dumps(change).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        method="GET" if change is None else "PATCH",
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)


def bytes_on_disk(root: Path, instance: str) -> int:
    files = (path for path in (root / instance).rglob("*") if path.is_file())
    return sum(path.stat().st_blocks * 512 for path in files)


def trim_all(platform: Platform, instance: str) -> None:
    port = platform.process.port("KVCM_META_HTTP_PORT")
    body = json.dumps({"instance_id": instance, "strategy": "TS_REMOVE_ALL_CACHE"}).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/trimCache", body, timeout=30) as answer:
        assert json.load(answer)["header"]["status"]["code"] == pb.ErrorCode.Name(pb.OK)


def test_one_engine_hits_exactly_what_is_there(platform: Platform, tmp_path: Path) -> None:
    requests, blocks, hits = generated_trace(tmp_path / "trace.jsonl")
    done = replay(platform.process, tmp_path / "trace.jsonl", "--instance", "exact")
    assert (done["requests"], done["blocks"], done["hit_blocks"]) == (requests, blocks, hits)
    assert (done["errors"], done["write_refused"]) == (0, 0)


@pytest.mark.timeout(900)
def test_bytes_files_and_usage_agree_and_trim_empties_all(
    platform: Platform, token: str, tmp_path: Path
) -> None:
    trace = TRACES / "mooncake_conversation_trace.jsonl"
    if not trace.exists():
        trace = tmp_path / "trace.jsonl"
        generated_trace(trace, requests=500)
    options = ("--instance", "bytes", "--limit", "500", "--with-data", "--block-bytes", str(SLOT))
    done = replay(platform.process, trace, *options)
    assert (done["bytes_wrong"], done["errors"]) == (0, 0)
    assert done["bytes_written"] == done["written_blocks"] * SLOT
    assert done["bytes_read"] == done["hit_blocks"] * SLOT > 0
    root = platform.process.data_dir / "nfs_01"
    usage = rest(platform, token, "instances/bytes/")["usage"]
    assert usage["used_bytes"] == done["bytes_written"] == bytes_on_disk(root, "bytes")

    trim_all(platform, "bytes")
    wait_for(
        lambda: rest(platform, token, "instances/bytes/")["usage"]["used_bytes"] == 0, 60, "usage is zero"
    )
    assert [path for path in (root / "bytes").rglob("*") if path.is_file()] == []
    recount(platform.process)


@pytest.mark.timeout(900)
def test_eight_engines_lose_nothing(platform: Platform, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    requests, blocks, _ = generated_trace(trace, requests=800, seed=11)
    done = replay(platform.process, trace, "--instance", "eight", "--engines", "8")
    assert (done["requests"], done["blocks"]) == (requests, blocks)
    assert (done["errors"], done["write_refused"]) == (0, 0)
    again = replay(platform.process, trace, "--instance", "eight", "--engines", "8")
    assert (again["hit_blocks"], again["written_blocks"]) == (blocks, 0)
    recount(platform.process)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", EXPECTED)
def test_public_traces(platform: Platform, name: str) -> None:
    if not (TRACES / name).exists():
        pytest.skip("the public trace is not on this machine; generated traces are tested above")
    done = replay(platform.process, TRACES / name, "--instance", f"public-{len(name)}", seconds=500)
    assert (done["requests"], done["blocks"], done["hit_blocks"]) == EXPECTED[name]
