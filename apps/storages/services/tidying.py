"""Removes the empty folders that instances leave behind on storages."""

from __future__ import annotations

import time

import structlog

from apps.storages.selectors import storage_entries
from kvcm_platform.duties.orphan_order import MIN_AGE_SECONDS
from kvcm_platform.storage.registry import KINDS

log = structlog.get_logger(__name__)


def storages_tidy(*, min_age_seconds: float = MIN_AGE_SECONDS) -> dict[str, int]:
    """Number of folders removed by storage; one that fails keeps the others from nothing.

    Only folders are removed that were empty for longer than any write takes.
    """
    removed = {}
    for entry in storage_entries():
        kind = KINDS.get(entry.type)
        if kind is None or kind.tidy is None or not entry.is_served:
            continue
        try:
            removed[entry.name] = kind.tidy(entry, time.time() - min_age_seconds)
        except OSError as error:
            log.warning("empty folders stay", storage=entry.name, reason=str(error))
    return removed
