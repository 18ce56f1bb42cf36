"""Django settings made from the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from apps.live.layer import LiveLayer
from kvcm_platform.settings.env import BadSetting, Env
from kvcm_platform.settings.parts.database import databases
from kvcm_platform.settings.parts.queues import celery_settings, channel_layers, kombu_url

ROOT = Path(__file__).parents[3]


def env(tmp_path: Path, **variables: str) -> Env:
    return Env({"KVCM_DATA_DIR": str(tmp_path), **variables})


def test_sqlite_by_default(tmp_path: Path) -> None:
    database = databases(env(tmp_path))["default"]
    assert database["NAME"] == str(tmp_path / "kvcm.sqlite3")
    assert (tmp_path / "kvcm.sqlite3").stat().st_mode & 0o777 == 0o600
    assert database["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert "journal_mode=WAL" in database["OPTIONS"]["init_command"]


def test_postgres_url(tmp_path: Path) -> None:
    url = "postgres://kv:p%40ss@db.internal:5433/kvcm?sslmode=require"
    database = databases(env(tmp_path, DATABASE_URL=url))["default"]
    assert [database[name] for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT")] == [
        "kvcm",
        "kv",
        "p@ss",
        "db.internal",
        "5433",
    ]
    assert database["OPTIONS"]["sslmode"] == "require"
    embedded = databases(env(tmp_path, DATABASE_URL="embedded-postgres"))["default"]
    assert embedded["HOST"] == str(tmp_path / "postgres")
    with pytest.raises(BadSetting, match="DATABASE_URL"):
        databases(env(tmp_path, DATABASE_URL="mysql://x/y"))


def test_no_call_has_more_keys_than_the_index_takes(tmp_path: Path) -> None:
    assert env(tmp_path, KVCM_MAX_KEYS="65536")["KVCM_MAX_KEYS"] == 65_536
    with pytest.raises(BadSetting, match="KVCM_MAX_KEYS"):
        env(tmp_path, KVCM_MAX_KEYS="65537")


def test_memory_is_kept_from_others_for_the_longest_write_at_least(tmp_path: Path) -> None:
    assert env(tmp_path)["KVCM_REUSE_QUARANTINE_S"] == 3600
    assert env(tmp_path, KVCM_REUSE_QUARANTINE_S="7200")["KVCM_REUSE_QUARANTINE_S"] == 7200
    with pytest.raises(BadSetting, match="KVCM_REUSE_QUARANTINE_S.*between 3600 and"):
        env(tmp_path, KVCM_REUSE_QUARANTINE_S="3599")


def test_the_debug_service_needs_a_port_above_that_of_the_data_plane(tmp_path: Path) -> None:
    assert env(tmp_path, KVCM_DEBUG_SERVICE="1").debug_http_port == 9382  # WIRE.md 6.1
    env(tmp_path, KVCM_META_HTTP_PORT="65535")
    with pytest.raises(BadSetting, match="KVCM_META_HTTP_PORT"):
        env(tmp_path, KVCM_DEBUG_SERVICE="1", KVCM_META_HTTP_PORT="62536")


def test_redis_addresses_of_the_other_users(tmp_path: Path) -> None:
    assert kombu_url("unix:///run/v.sock") == "redis+socket:///run/v.sock"
    assert kombu_url("redis://host:6379/1") == "redis://host:6379/1"
    settings = celery_settings(
        env(tmp_path, KVCM_REDIS_URL="redis://index", KVCM_BROKER_URL="redis://broker")
    )
    assert settings["broker_url"] == "redis://broker"
    assert (settings["task_acks_late"], settings["worker_prefetch_multiplier"]) == (True, 1)
    assert settings["accept_content"] == ["json"]
    hosts = channel_layers(env(tmp_path))["default"]["CONFIG"]["hosts"]
    assert hosts == [{"address": f"unix://{tmp_path}/valkey.sock", "socket_timeout": 10}]


@pytest.mark.parametrize("url", ["redis://h", "rediss://h:7", "redis+sentinel://a:1,b:2/index"])
def test_channels_wait_longer_for_an_answer_than_redis_is_asked_to_wait(tmp_path: Path, url: str) -> None:
    (host,) = channel_layers(env(tmp_path, KVCM_REDIS_URL=url))["default"]["CONFIG"]["hosts"]
    assert host["socket_timeout"] > LiveLayer.brpop_timeout


@pytest.mark.parametrize("name", ["KVCM_BROKER_URL", "KVCM_CHANNELS_URL"])
def test_a_cluster_needs_other_servers_for_queues_and_channels(tmp_path: Path, name: str) -> None:
    both = {"KVCM_BROKER_URL": "redis://one", "KVCM_CHANNELS_URL": "redis://one"}
    cluster = "redis+cluster://:secret@a:1,b:2"
    assert env(tmp_path, KVCM_REDIS_URL=cluster, **both).redis_url == cluster
    for wrong in ({name: ""}, {name: "redis+cluster://a"}):
        with pytest.raises(BadSetting, match=f"{name} must name one server or its Sentinels"):
            env(tmp_path, KVCM_REDIS_URL=cluster, **{**both, **wrong})


def test_a_bad_redis_url_is_refused_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="KVCM_REDIS_URL.*database 0") as caught:
        env(tmp_path, KVCM_REDIS_URL="redis+cluster://me:secret@a:1/7")
    assert "secret" not in str(caught.value)


def test_sentinels_for_queues_and_channels(tmp_path: Path) -> None:
    url = "redis+sentinel://me:p%40ss@a:1,b:2/index/3?sentinel_user=s&sentinel_password=t"
    known = env(tmp_path, KVCM_REDIS_URL=url)
    settings = celery_settings(known)
    assert settings["broker_url"] == "sentinel://me:p%40ss@a:1/3;sentinel://me:p%40ss@b:2/3"
    assert settings["broker_transport_options"]["master_name"] == "index"
    assert settings["broker_transport_options"]["sentinel_kwargs"]["password"] == "t"
    (host,) = channel_layers(known)["default"]["CONFIG"]["hosts"]
    assert (host["sentinels"], host["master_name"], host["db"]) == ([("a", 1), ("b", 2)], "index", 3)
    assert (host["username"], host["password"]) == ("me", "p@ss")


def test_tls_with_an_authority_for_queues_and_channels(tmp_path: Path) -> None:
    known = env(tmp_path, KVCM_REDIS_URL="rediss://h:7?ca=/etc/ca.pem")
    broker = "rediss://h:7/0?ssl_cert_reqs=CERT_REQUIRED&ssl_ca_certs=%2Fetc%2Fca.pem"
    assert celery_settings(known)["broker_url"] == broker
    (host,) = channel_layers(known)["default"]["CONFIG"]["hosts"]
    assert host["address"] == "rediss://h:7/0?ssl_cert_reqs=required&ssl_ca_certs=%2Fetc%2Fca.pem"


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({}, "KVCM_SECRET_KEY"),
        ({"KVCM_SECRET_KEY": "x" * 50}, "DATABASE_URL"),
        (
            {"KVCM_SECRET_KEY": "x" * 50, "DATABASE_URL": "postgres://a/b", "KVCM_BIND": "0.0.0.0"},
            "beyond loopback",
        ),
    ],
)
def test_production_refuses_unsafe_defaults(tmp_path: Path, variables: dict[str, str], reason: str) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "KVCM_DATA_DIR": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "kvcm_platform.settings.prod",
        **variables,
    }
    command = [sys.executable, "-c", "import django; django.setup()"]
    done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert reason in done.stderr


def test_importing_the_package_loads_no_framework() -> None:
    code = "import kvcm_platform, sys; print('django' in sys.modules, 'celery' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
