"""Celery and Channels: the two users of Redis besides the index."""

from __future__ import annotations

from typing import Any

from kvcm_platform.settings.env import Env

_UNIX = "unix://"


def kombu_url(url: str) -> str:
    """The broker's address as kombu spells it: `unix:///path` becomes `redis+socket:///path`."""
    return f"redis+socket://{url.removeprefix(_UNIX)}" if url.startswith(_UNIX) else url


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
        },
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


def channel_layers(env: Env) -> dict[str, Any]:
    return {
        "default": {
            "BACKEND": "channels_redis.core.RedisChannelLayer",
            "CONFIG": {"hosts": [{"address": env.channels_url}], "prefix": "kvcm:live", "expiry": 30},
        }
    }
