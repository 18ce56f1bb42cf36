"""The periodic check: one round at a time over the whole platform, and what is due beside it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
import structlog
from django.utils import timezone

from apps.common.redis_client import blocks_client, index_client
from apps.storages.selectors import storages_to_check
from apps.storages.services.checking import CheckRound
from apps.storages.services.content import content_checks_ask
from apps.storages.services.history import history_prune
from apps.storages.usage import UsageByNumber, usage_by_storage
from kvcm_platform.core.health import HealthLimits
from kvcm_platform.index import functions, keyspace
from kvcm_platform.index.registry import ensure_functions

log = structlog.get_logger(__name__)

LEASE_MS = 10_000


def storages_check(*, limits: HealthLimits) -> dict[str, Any]:
    """Check every storage that may be used, or still has to be emptied; what came of it.

    One that is down leaves placement within one round, and a single hiccup does not count: whatever
    speaks against what is known gets a second look at once.
    """
    with _lease() as lease:
        if lease is None:
            return {"skipped": "another round is under way"}
        entries = storages_to_check()
        checks = CheckRound(limits=limits, usages=_usages(), keep=lease.keep).run(entries)
        return {
            "checks": checks,
            "unavailable": [entry.name for entry in storages_to_check() if not entry.is_available],
            "asked": _content_checks(limits),
            "pruned": history_prune(now=timezone.now()),
        }


def _usages() -> UsageByNumber | None:
    try:
        return usage_by_storage(blocks_client())
    except redis.RedisError as error:
        log.warning("storages are checked without their usage", error=str(error))
        return None


def _content_checks(limits: HealthLimits) -> list[str]:
    try:
        return content_checks_ask(client=index_client(), limits=limits, now=timezone.now())
    except redis.RedisError as error:
        log.warning("checks of blocks are asked for later", error=str(error))
        return []


class _Lease:
    """Held by the process that runs a round. A lost one costs a second round beside it, no more."""

    def __init__(self, client: redis.Redis | None) -> None:
        self._client = client
        self.owner = secrets.token_hex(8)

    def call(self, name: str, *args: Any) -> Any:
        if self._client is None:
            return 1
        return self._client.fcall(functions.name(name), 1, keyspace.STORAGE_ROUND_LEASE, self.owner, *args)

    def keep(self) -> None:
        try:
            self.call("kvcm_lease_keep", LEASE_MS)
        except redis.RedisError as error:
            log.warning("the lease of the storages' checks was not kept", error=str(error))


@contextmanager
def _lease() -> Iterator[_Lease | None]:
    """None while another process has it. Without the index there is none: rows are locked anyway."""
    client = index_client()
    lease = _Lease(client)
    try:
        ensure_functions(client)
        is_taken = bool(lease.call("kvcm_lease_take", LEASE_MS))
    except redis.RedisError:
        lease, is_taken = _Lease(None), True
    if not is_taken:
        yield None
        return
    try:
        yield lease
    finally:
        try:
            lease.call("kvcm_lease_drop")
        except redis.RedisError as error:
            log.warning("the lease of the storages' checks was not given back", error=str(error))
