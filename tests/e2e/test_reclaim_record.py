"""Reclaim on the whole platform, as an operator sees it: marks act, runs are on record, bytes go."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Platform
from tests.support.platform_process import wait_for
from tests.support.replays import generated_trace, manage, recount, replay

SLOT = 8192
QUOTA = 400 * SLOT


class Rest:
    def __init__(self, platform: Platform) -> None:
        done = manage(platform.process, "create_token", "--username", "admin", "--name", "reclaim")
        self._token, self._url = done.stdout.split()[-1], f"{platform.url}/api/v1/"

    def __call__(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        request = urllib.request.Request(
            self._url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)


@pytest.fixture(scope="module")
def rest(platform: Platform) -> Rest:
    found = Rest(platform)
    # Engines read what they were told of within the delay: two seconds, as a machine may stall.
    group = {
        "name": "tight",
        "storage_candidates": ["nfs_01"],
        "quota": {"capacity_bytes": QUOTA},
        "reclaim": {"used_ratio": 0.8, "low_watermark_ratio": 0.7, "delay_before_delete_ms": 2000},
    }
    found("POST", "instance-groups/", group)
    return found


def bytes_on_disk(platform: Platform) -> int:
    root = platform.process.data_dir / "nfs_01" / "tight"
    return sum(path.stat().st_blocks * 512 for path in root.rglob("*") if path.is_file())


@pytest.mark.timeout(900)
def test_marks_act_and_the_record_tells(platform: Platform, rest: Rest, tmp_path: Path) -> None:
    options = ("--instance", "tight", "--group", "tight", "--with-data", "--block-bytes", str(SLOT))

    def settled() -> dict[str, Any] | None:
        open_runs = rest("GET", "capacity/reclaim-runs/?instance_group=tight&state=choosing&state=deleting")
        usage = rest("GET", "instance-groups/tight/")["usage"]
        is_over = open_runs["count"] == 0 and usage["pending_bytes"] == 0
        return usage if is_over and usage["used_bytes"] <= 0.8 * QUOTA else None

    written, usage = 0, {}
    for seed in (1, 2):
        generated_trace(tmp_path / "trace.jsonl", requests=300, seed=seed)
        done = replay(platform.process, tmp_path / "trace.jsonl", *options)
        assert (done["errors"], done["bytes_wrong"]) == (0, 0)
        written += done["written_blocks"] * SLOT
        usage = wait_for(settled, 60, "usage is below the mark and every run is over")
    assert written > QUOTA, "or nothing had to go"

    def all_told() -> list[dict[str, Any]]:
        """The runs, once those of the last second are on record, too."""
        found = rest("GET", "capacity/reclaim-runs/?instance_group=tight&page_size=500")["results"]
        freed = sum(run["freed_bytes"] for run in found)
        is_all = freed == written - usage["used_bytes"] and {run["state"] for run in found} == {"done"}
        return found if is_all else []

    runs = wait_for(all_told, 30, "the record tells of every byte that was freed")
    assert {run["trigger"] for run in runs} <= {"watermark", "refused"}
    assert all(run["freed_bytes"] == run["chosen_bytes"] for run in runs)
    assert bytes_on_disk(platform) == usage["used_bytes"]

    newest = rest("GET", f"capacity/reclaim-runs/{runs[0]['id']}/")
    assert newest["by_instance"] == [
        {"instance_id": "tight", "blocks": newest["chosen_blocks"], "bytes": newest["chosen_bytes"]}
    ]
    gone = rest("GET", "capacity/evictions/?instance_id=tight&at_most=1")["results"][0]
    assert (gone["cause"], gone["run_id"] in {run["id"] for run in runs}) == ("reclaim", True)
    recount(platform.process)

    shown = rest("POST", "capacity/preview/", {"kind": "reclaim", "instance_group": "tight", "percent": 50})
    asked = rest("POST", "capacity/reclaim-runs/", {"instance_group": "tight", "percent": 50})

    def over() -> dict[str, Any] | None:
        run = rest("GET", f"capacity/reclaim-runs/{asked['id']}/")
        return run if run["state"] not in ("queued", "choosing", "deleting") else None

    run = wait_for(over, 60, "what was asked for is freed")
    assert (run["state"], run["freed_blocks"]) == ("done", shown["planned_blocks"])
    assert run["freed_bytes"] == shown["planned_bytes"] == -(-usage["used_bytes"] // (2 * SLOT)) * SLOT

    trim = {"instance_id": "tight", "strategy": "all"}
    counted = rest("POST", "cache/trim/", {**trim, "dry_run": True})
    assert rest("POST", "cache/trim/", trim)["blocks"] == counted["blocks"] > 0
    wait_for(lambda: bytes_on_disk(platform) == 0, 60, "everything is off the disk")
    recount(platform.process)
