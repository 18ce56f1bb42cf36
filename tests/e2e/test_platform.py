"""The running platform from outside: health, and what happens to a killed process."""

from __future__ import annotations

import json
import os
import signal
import urllib.request

import pytest
import redis

from kvcm_platform.index import keyspace
from kvcm_platform.settings.env import Env
from tests.e2e.conftest import Platform
from tests.support.platform_process import wait_for


def get(url: str) -> tuple[int, dict]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_ready_with_every_role(platform: Platform) -> None:
    status, body = get(f"{platform.url}/healthz/ready")
    assert (status, body["state"]) == (200, "ready")
    assert body["components"]["metadata"]["processes"] == 2


@pytest.mark.parametrize("name", ["worker", "metadata-1", "control", "beat", "web"])
def test_a_killed_process_comes_back_and_the_platform_is_ready_again(platform: Platform, name: str) -> None:
    client = redis.Redis.from_url(Env(platform.process.environment).redis_url)

    def child() -> dict:
        return next(c for c in map(json.loads, client.hvals(keyspace.SUPERVISOR)) if c["name"] == name)

    old = child()
    os.kill(old["pid"], signal.SIGKILL)
    wait_for(
        lambda: child()["pid"] not in (None, old["pid"]) and child()["state"] == "ready",
        60,
        f"{name} is back",
    )

    def is_ready() -> bool:
        try:
            return get(f"{platform.url}/healthz/ready")[0] == 200
        except OSError:
            return False

    wait_for(is_ready, 30, "ready again")
    assert child()["restarts"] == old["restarts"] + 1
