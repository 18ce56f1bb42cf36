"""Celery and Channels: the two users of Redis besides the index."""

from __future__ import annotations

import ssl
from typing import Any
from urllib.parse import quote

from kvcm_platform.index import address
from kvcm_platform.index.address import Address, Credentials
from kvcm_platform.settings.env import Env

_UNIX = "unix://"
_OURS = ("rediss://", "redis+sentinel://", "rediss+sentinel://")


def kombu_url(url: str) -> str:
    """The broker's address as kombu spells it: `unix:///path` becomes `redis+socket:///path`."""
    if url.startswith(_UNIX):
        return f"redis+socket://{url.removeprefix(_UNIX)}"
    if not url.startswith(_OURS):
        return url
    where = address.parse(url)
    login = "" if not where.credentials.password else f"{_login(where.credentials)}@"
    if where.kind == "sentinel":
        servers = [f"sentinel://{login}{host}:{port}/{where.database}" for host, port in where.hosts]
        return ";".join(servers)
    host, port = where.hosts[0]
    authority = f"&ssl_ca_certs={quote(where.ca_file, safe='')}" if where.ca_file else ""
    return f"rediss://{login}{host}:{port}/{where.database}?ssl_cert_reqs=CERT_REQUIRED{authority}"


def _login(credentials: Credentials) -> str:
    return f"{quote(credentials.user, safe='')}:{quote(credentials.password, safe='')}"


def _sentinel_options(url: str) -> dict[str, Any]:
    """Transport options without which kombu finds no master; empty for other kinds of broker."""
    if not url.startswith(_OURS) or address.parse(url).kind != "sentinel":
        return {}
    where = address.parse(url)
    return {"master_name": where.master_name, "sentinel_kwargs": _to_sentinels(where)}


def _to_sentinels(where: Address) -> dict[str, Any]:
    options: dict[str, Any] = {"socket_timeout": 1, "socket_connect_timeout": 1, **_tls(where)}
    if where.sentinel_credentials.password:
        options["username"] = where.sentinel_credentials.user
        options["password"] = where.sentinel_credentials.password
    return options


def _tls(where: Address) -> dict[str, Any]:
    if not where.is_tls:
        return {}
    return {"ssl": True, **({"ssl_ca_certs": where.ca_file} if where.ca_file else {})}


def celery_settings(env: Env) -> dict[str, Any]:
    """Every CELERY_ setting (the prefix is added by the caller)."""
    return {
        "broker_url": kombu_url(env.broker_url),
        "broker_connection_retry_on_startup": True,
        "broker_transport_options": {
            "visibility_timeout": 900,
            "socket_timeout": 10,
            "socket_connect_timeout": 2,
            # Who enqueues does not wait for a broker that is down: a schedule repeats the work.
            "max_retries": 1,
            "interval_start": 0,
            "interval_step": 0,
            **_sentinel_options(env.broker_url),
        },
        **_broker_tls(env.broker_url),
        "result_backend": None,
        "task_ignore_result": True,
        "accept_content": ["json"],
        "task_serializer": "json",
        "result_serializer": "json",
        # A task is given back when its worker dies under it, so every task is written to be repeated.
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "worker_prefetch_multiplier": 1,
        "worker_max_tasks_per_child": 5000,
        "worker_hijack_root_logger": False,
        "task_time_limit": 300,
        "task_soft_time_limit": 270,
        "task_default_queue": "kvcm",
        "timezone": "UTC",
        "enable_utc": True,
        "beat_scheduler": "django_celery_beat.schedulers:DatabaseScheduler",
        "beat_max_loop_interval": 1,
    }


def _broker_tls(url: str) -> dict[str, Any]:
    """A master behind Sentinels takes TLS from here, a single server from its URL."""
    if not url.startswith("rediss+sentinel://"):
        return {}
    where = address.parse(url)
    options = {
        "ssl_cert_reqs": ssl.CERT_REQUIRED,
        **({"ssl_ca_certs": where.ca_file} if where.ca_file else {}),
    }
    return {"broker_use_ssl": options}


def channel_layers(env: Env) -> dict[str, Any]:
    return {
        "default": {
            "BACKEND": "apps.live.layer.LiveLayer",
            "CONFIG": {"hosts": [_channels_host(env.channels_url)], "prefix": "kvcm:live", "expiry": 30},
        }
    }


_CHANNELS_SECONDS = 10
"""Above what the layer asks Redis to wait for a message: a client that gives up first ends idle sockets."""


def _channels_host(url: str) -> dict[str, Any]:
    return {**_channels_server(url), "socket_timeout": _CHANNELS_SECONDS}


def _channels_server(url: str) -> dict[str, Any]:
    if not url.startswith(_OURS):
        return {"address": url}
    where = address.parse(url)
    login = {}
    if where.credentials.password:
        login = {"username": where.credentials.user, "password": where.credentials.password}
    if where.kind == "sentinel":
        return {
            "sentinels": list(where.hosts),
            "master_name": where.master_name,
            "sentinel_kwargs": _to_sentinels(where),
            "db": where.database,
            **login,
            **_tls(where),
        }
    return {"address": kombu_url(url).replace("CERT_REQUIRED", "required")}
