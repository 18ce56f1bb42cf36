"""The optimizer on the whole platform: traces come in, runs are seen live and survive a killed worker."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from websockets.sync.client import connect

from tests.e2e.conftest import Platform
from tests.support.platform_process import wait_for
from tests.support.rest import Rest, admin_of

RUNS, TRACES = "optimizer/runs/", "optimizer/traces/"


@pytest.fixture(scope="module")
def rest(platform: Platform) -> Rest:
    return admin_of(platform.process, f"optimizer-{uuid.uuid4().hex[:6]}")


@pytest.fixture(scope="module")
def trace(rest: Rest) -> int:
    """Large enough that runs of some policies take seconds."""
    made = rest(f"{TRACES}generate/", {"requests": 100_000, "seed": 3, "name": "large"})
    ready(rest, made["id"])
    return int(made["id"])


def ready(rest: Rest, trace: int) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        row = rest(f"{TRACES}{trace}/")
        assert row["state"] != "failed", row["reason"]
        return row if row["state"] == "ready" else None

    return wait_for(found, 240, "the trace is read")


def over(rest: Rest, run: int, seconds: float = 240) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        row = rest(f"{RUNS}{run}/")
        return row if row["state"] in ("done", "failed", "cancelled") else None

    return wait_for(found, seconds, "the run is over")


def upload(platform: Platform, rest: Rest, content: bytes) -> dict[str, Any]:
    boundary = uuid.uuid4().hex
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="t.jsonl"\r\n\r\n'
    request = urllib.request.Request(
        f"{platform.url}/api/v1/{TRACES}",
        data=head.encode() + content + f"\r\n--{boundary}--\r\n".encode(),
        headers={
            "Authorization": f"Bearer {rest._token}",
            "Content-Type": f"multipart/form-data; boundary={boundary}",
        },
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def job_processes(platform: Platform) -> set[int]:
    return {pid for pid, command in platform.process.others().items() if "optimizer.analysis" in command}


class Watcher:
    """A browser's live socket on the topic `optimizer`."""

    def __init__(self, platform: Platform, rest: Rest) -> None:
        ticket = rest("live/ticket", {})["token"]
        # Without an event loop: a real browser's, of tests before this one, may be running in this thread.
        self._connecting = connect(
            f"{platform.url.replace('http', 'ws')}/ws/live/?token={ticket}", origin=platform.url
        )

    def __enter__(self) -> Watcher:
        self._socket = self._connecting.__enter__()
        self._socket.send(json.dumps({"op": "subscribe", "topics": ["optimizer"]}))
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def run(self, run: int, wanted: Callable[[dict[str, Any]], bool], seconds: float) -> dict[str, Any]:
        """The run as the first picture shows it in which it is as wanted. Raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while True:
            message = json.loads(self._socket.recv(timeout=max(0.0, deadline - time.monotonic())))
            assert message["kind"] in ("snapshot", "change"), message
            for row in (*message["data"]["open"], *message["data"]["ended"]):
                if row["id"] == run and wanted(row):
                    return row


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_run_is_seen_live_and_survives_a_killed_worker(platform: Platform, rest: Rest, trace: int) -> None:
    wish = {"trace": trace, "policies": ["lru", "sampled_lru"], "name": "survivor"}
    run = rest(RUNS, wish)["id"]

    with Watcher(platform, rest) as watcher:
        first = watcher.run(run, lambda row: 0 < row["progress"] < 0.8, 120)
        assert first["state"] == "running" and any(job["state"] == "running" for job in first["jobs"])
        then = watcher.run(run, lambda row: row["progress"] > first["progress"], 120)
        assert then["state"] == "running", "or there is nothing left to kill"
        worker = platform.child("worker")
        children = job_processes(platform)
        assert children
        os.kill(worker["pid"], signal.SIGKILL)
        wait_for(lambda: not children & job_processes(platform), 60, "the jobs die with it")
        seen = watcher.run(run, lambda row: row["state"] not in ("queued", "running"), 300)
    assert (seen["state"], seen["progress"]) == ("done", 1.0), seen["reason"]
    found = rest(f"{RUNS}{run}/")
    assert {job["state"] for job in found["jobs"]} == {"done"}
    assert max(job["tries"] for job in found["jobs"]) == 2
    curves = {row["policy"]: row for row in rest(f"{RUNS}{run}/result/")["curves"]}
    assert set(curves) == {"lru", "sampled_lru", "belady"}
    assert max(curves["belady"]["hit_rate"]) == pytest.approx(curves["lru"]["unlimited_hit_rate"], abs=1e-6)


@pytest.mark.timeout(600)
def test_a_run_is_cancelled_within_seconds(platform: Platform, rest: Rest, trace: int) -> None:
    wish = {"trace": trace, "policies": ["compat:random_lru", "sampled_lru"], "has_bound": False}
    run = rest(RUNS, wish)["id"]
    with Watcher(platform, rest) as watcher:
        watcher.run(run, lambda row: row["state"] == "running", 60)
        rest(f"{RUNS}{run}/cancel/", {})
        watcher.run(run, lambda row: row["state"] == "cancelled", 30)
    wait_for(lambda: not job_processes(platform), 60, "no job goes on")


@pytest.mark.timeout(300)
def test_an_upload_over_http(platform: Platform, rest: Rest) -> None:
    lines = [
        {"timestamp": n * 1000, "input_length": 1024, "output_length": 1, "hash_ids": [n % 7, 100 + n % 7]}
        for n in range(200)
    ]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    found = ready(rest, upload(platform, rest, content)["id"])
    assert (found["requests"], found["blocks"], found["distinct_blocks"]) == (200, 400, 14)
    request = urllib.request.Request(
        f"{platform.url}/api/v1/{TRACES}{found['id']}/source/",
        headers={"Authorization": f"Bearer {rest._token}"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.read() == content
    assert over(rest, rest(RUNS, {"trace": found["id"]})["id"])["state"] == "done"
