"""A platform with two storages, engines that replay, and a watch on where writes go."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.platform_process import ROOT, PlatformProcess, wait_for
from tests.support.replays import generated_trace, manage, replay_command

BLOCK = 4096
WATCH_SECONDS = 0.05


class Failover:
    """REST calls and figures of one platform. Times are seconds of time.monotonic."""

    def __init__(self, platform: PlatformProcess) -> None:
        self.platform = platform
        done = manage(platform, "create_token", "--username", "admin", "--name", "failover")
        self._token = done.stdout.split()[-1]

    def rest(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.platform.port('KVCM_WEB_PORT')}/api/v1/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def add_storage(self, name: str, kind: str, spec: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
        return self.rest("POST", "storages/", {"name": name, "type": kind, "spec": spec, **settings})

    def use(self, candidates: Sequence[str], **changes: Any) -> None:
        """Makes these the candidates of group `default`, without limits."""
        unlimited = {"capacity_bytes": 10**15, "per_type": {}}
        body = {"storage_candidates": list(candidates), "quota": unlimited, **changes}
        self.rest("PATCH", "instance-groups/default/", body)

    def storage(self, name: str) -> dict[str, Any]:
        return self.rest("GET", f"storages/{name}/")

    def blocks(self, name: str) -> int:
        return int(self.storage(name)["usage"]["blocks"])

    def until_health(self, name: str, state: str, seconds: float) -> float:
        """Waits for a state of health; returns when it was seen."""

        def is_so() -> bool:
            return self.storage(name)["health"]["state"] == state

        wait_for(is_so, seconds, f"{name} is {state}")
        return time.monotonic()

    def until_written(self, name: str, seconds: float) -> float:
        """Waits until more blocks lie on a storage than now; returns when that was seen."""
        before = self.blocks(name)
        wait_for(lambda: self.blocks(name) > before, seconds, f"blocks are written to {name}")
        return time.monotonic()

    @contextmanager
    def replaying(self, folder: Path, *, requests: int = 6000, engines: int = 4) -> Iterator[Replaying]:
        """Engines that replay a trace of a minute with data."""
        trace = folder / "trace.jsonl"
        generated_trace(trace, requests=requests)
        options = ("--instance", "failover", "--engines", str(engines), "--with-data")
        command = replay_command(self.platform, trace, *options, "--block-bytes", str(BLOCK), "--speed", "1")
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=self.platform.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield Replaying(process)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(40)


class Replaying:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    @property
    def is_over(self) -> bool:
        return self.process.poll() is not None

    def figures(self, seconds: float = 300) -> dict[str, Any]:
        """What the replay printed at its end, also where it complains of reads that failed."""
        output, errors = self.process.communicate(timeout=seconds)
        assert output, errors
        return json.loads(output)
