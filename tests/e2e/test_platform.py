"""The running platform from outside: health, and what happens to a killed process."""

from __future__ import annotations

import json
import os
import signal
import urllib.request

import pytest

from tests.e2e.conftest import Platform
from tests.support.platform_process import get_status, wait_for


def test_ready_with_every_role(platform: Platform) -> None:
    with urllib.request.urlopen(f"{platform.url}/healthz/ready", timeout=10) as answer:
        body = json.load(answer)
    assert body["state"] == "ready"
    assert body["components"]["metadata"]["processes"] == 2


@pytest.mark.parametrize("name", ["worker", "metadata-1", "control", "beat", "web", "valkey"])
def test_a_killed_process_comes_back_and_the_platform_is_ready_again(platform: Platform, name: str) -> None:
    old = platform.child(name)
    os.kill(old["pid"], signal.SIGKILL)

    def is_back() -> bool:
        child = platform.child(name)
        return child["pid"] not in (None, old["pid"]) and child["state"] == "ready"

    wait_for(is_back, 60, f"{name} is back")
    wait_for(lambda: get_status(f"{platform.url}/healthz/ready") == 200, 60, "ready again")
    assert platform.child(name)["restarts"] == old["restarts"] + 1
