"""Readiness names what is missing; liveness asks nothing; metrics are Prometheus's text."""

from __future__ import annotations

import os
from dataclasses import asdict

import pytest
from django.test import Client

from apps.live.overview import overview
from apps.live.processes import ROLES
from kvcm_platform.index import heartbeat, keyspace
from kvcm_platform.index.chunks import CacheCounters
from tests.support.valkey import ValkeyServer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server(empty_valkey: ValkeyServer, settings):
    settings.KVCM_REDIS_URL = empty_valkey.url
    overview.cache_clear()
    client = empty_valkey.client()
    yield client
    client.close()
    overview.cache_clear()


def test_ready_when_every_role_is_heard_of(server) -> None:
    for role in ROLES:
        heartbeat.beat(server, role, "here")
    answer = Client().get("/healthz/ready")
    assert answer.status_code == 200
    body = answer.json()
    assert body["state"] == "ready" and body["missing"] == []
    assert set(body["components"]) == {"database", "redis", *ROLES}


@pytest.mark.parametrize("role", ROLES)
def test_not_ready_without_one_role(server, role: str) -> None:
    for other in ROLES:
        if other != role:
            heartbeat.beat(server, other, "here")
    answer = Client().get("/healthz/ready")
    assert answer.status_code == 503
    assert answer.json()["missing"] == [role]


def test_an_old_heartbeat_does_not_count(server, monkeypatch) -> None:
    for role in ROLES:
        heartbeat.beat(server, role, "here")
    real = heartbeat.time.time
    monkeypatch.setattr("apps.health.selectors.time.time", lambda: real() + 6)
    assert Client().get("/healthz/ready").json()["missing"] == list(ROLES)


def test_not_ready_without_redis(settings) -> None:
    settings.KVCM_REDIS_URL = "unix:///nowhere/valkey.sock"
    answer = Client().get("/healthz/ready")
    assert answer.status_code == 503
    assert answer.json()["missing"] == ["redis", *ROLES]
    assert answer.json()["components"]["database"]["state"] == "ok"


def test_live_needs_nothing(settings) -> None:
    settings.KVCM_REDIS_URL = "unix:///nowhere/valkey.sock"
    assert Client().get("/healthz/live").status_code == 200


def test_metrics_are_text_for_prometheus(server) -> None:
    counters = CacheCounters(hit_chunks=70, miss_chunks=5, invalidated_chunks=2, bytes=4096)
    heartbeat.beat(server, "metadata", "here", {"search_cache": asdict(counters)})
    server.hset(keyspace.GROUP_COUNTERS, mapping={"chat|refused_calls": 3})
    answer = Client().get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain")
    text = answer.content.decode()
    assert "kvcm_requested_blocks_total 0.0" in text
    assert "kvcm_process_up{" in text and 'role="metadata"' in text
    assert "kvcm_verdict 1.0" in text
    assert 'kvcm_group_refused_calls_total{instance_group="chat"} 3.0' in text
    where = f'{{node="here",pid="{os.getpid()}"}}'
    assert f"kvcm_search_cache_hit_chunks_total{where} 70.0" in text
    assert f"kvcm_search_cache_invalidated_chunks_total{where} 2.0" in text
    assert f"kvcm_search_cache_bytes{where} 4096.0" in text
