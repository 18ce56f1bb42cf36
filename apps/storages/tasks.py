"""Periodic checks of the storages."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from celery import shared_task
from django.utils import timezone

from apps.storages.selectors import storage_entries
from apps.storages.services import storage_set_health
from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.storage.probe import ProbeResult, probe

_AT_ONCE = 16
_SECOND_LOOK_SECONDS = 1.0


@shared_task(name="apps.storages.tasks.check_storages", time_limit=60, soft_time_limit=50)
def check_storages() -> dict[str, bool]:
    """Probe every enabled storage side by side; those that just failed get a second look at once.

    So a storage that is down leaves placement within one run, and a single hiccup does not count.
    """
    entries = [entry for entry in storage_entries() if entry.is_enabled]
    failed = _check(entries)
    if failed:
        time.sleep(_SECOND_LOOK_SECONDS)
        _check(failed)
    still_failing = {entry.name for entry in storage_entries() if not entry.is_available}
    return {entry.name: entry.name not in still_failing for entry in entries}


def _check(entries: list[StorageEntry]) -> list[StorageEntry]:
    """Probe and note; returns those that failed while they counted as available."""
    if not entries:
        return []
    with ThreadPoolExecutor(max_workers=min(_AT_ONCE, len(entries))) as pool:
        results = list(pool.map(probe, entries))
    failed = []
    for entry, result in zip(entries, results, strict=True):
        _note(entry, result)
        if entry.is_available and not result.is_ok:
            failed.append(entry)
    return failed


def _note(entry: StorageEntry, result: ProbeResult) -> None:
    storage_set_health(
        name=entry.name,
        is_ok=result.is_ok,
        message=result.message,
        latency_ms=result.latency_ms,
        is_full=result.is_full,
        checked_at=timezone.now(),
    )
