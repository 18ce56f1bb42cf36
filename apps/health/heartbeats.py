"""Signs of life of the processes that run Django: web, worker and beat."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import redis
import structlog
from celery.signals import beat_init, worker_ready, worker_shutting_down
from django.conf import settings

from apps.common.redis_client import index_client
from kvcm_platform.index import heartbeat

log = structlog.get_logger(__name__)

BEAT_SECONDS = 1.0


def send(role: str) -> None:
    """One beat. Redis may be away for a while; the next beat tries again."""
    try:
        heartbeat.beat(index_client(), role, settings.ENV.node_id)
    except (redis.RedisError, OSError) as error:
        log.warning("heartbeat not sent", role=role, error=str(error))


def _leave(role: str) -> None:
    try:
        heartbeat.leave(index_client(), role, settings.ENV.node_id)
    except (redis.RedisError, OSError) as error:
        log.info("heartbeat not withdrawn", role=role, error=str(error))


class ThreadHeartbeat:
    """Beats from a thread of its own, for processes whose main loop is Celery's."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name=f"heartbeat-{self._role}", daemon=True).start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            send(self._role)
            self._stopped.wait(BEAT_SECONDS)

    def stop(self) -> None:
        self._stopped.set()
        _leave(self._role)


async def beat_from_loop(role: str) -> None:
    """Beats from the event loop itself, so that a stuck loop is seen as a late process."""
    try:
        while True:
            await asyncio.to_thread(send, role)
            await asyncio.sleep(BEAT_SECONDS)
    finally:
        _leave(role)


def connect_celery() -> None:
    """Make the worker and beat processes send heartbeats; harmless in any other process."""
    started: dict[str, ThreadHeartbeat] = {}

    def start(role: str) -> None:
        started[role] = ThreadHeartbeat(role)
        started[role].start()

    def on_worker_ready(**_: Any) -> None:
        start("worker")

    def on_worker_stop(**_: Any) -> None:
        if "worker" in started:
            started["worker"].stop()

    def on_beat_init(**_: Any) -> None:
        start("beat")

    # Strong references: these functions live nowhere else.
    worker_ready.connect(on_worker_ready, weak=False)
    worker_shutting_down.connect(on_worker_stop, weak=False)
    beat_init.connect(on_beat_init, weak=False)
