"""Rounds of all about reports and recommendations; each part may be done twice, or by two at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import structlog
from django.utils import timezone

from apps.optimizer_reports.services.beat_rows import beat_rows_align
from apps.optimizer_reports.services.recommendations import recommendations_expire, recommendations_make
from apps.optimizer_reports.services.report_begin import reports_fire_missed
from apps.optimizer_reports.services.report_mails import mails_send
from apps.optimizer_reports.services.report_retention import reports_prune
from apps.optimizer_reports.services.reports import reports_advance
from kvcm_platform.core.errors import DomainError

log = structlog.get_logger(__name__)
_reporting = threading.Lock()
_mailing = threading.Lock()
"""Of this process: a mail server that hangs keeps one thread, and no report."""


def reports_round() -> dict[str, int]:
    """What is due now; of a part that goes on in this process already nothing."""
    parts: dict[str, Callable[[], int]] = {
        "begun": reports_fire_missed,
        "steps": reports_advance,
        "advice": recommendations_make,
    }
    mails: dict[str, Callable[[], int]] = {"sent": lambda: mails_send().sent}
    return {**_alone(_reporting, parts), **_alone(_mailing, mails)}


def reports_keep() -> dict[str, int]:
    """What may wait: old rows go, rows of beat are put right."""
    parts: dict[str, Callable[[], int]] = {
        "expired": lambda: recommendations_expire(now=timezone.now()),
        "pruned": reports_prune,
        "strays": beat_rows_align,
    }
    return _all(parts)


def _alone(lock: threading.Lock, parts: Mapping[str, Callable[[], int]]) -> dict[str, int]:
    if not lock.acquire(blocking=False):
        return {}
    try:
        return _all(parts)
    finally:
        lock.release()


def _all(parts: Mapping[str, Callable[[], int]]) -> dict[str, int]:
    """A part that fails is logged, and the others are done."""
    done = {}
    for name, part in parts.items():
        try:
            done[name] = part()
        except (DomainError, OSError, ValueError) as error:
            log.exception("a part of the round of reports failed", part=name, error=str(error))
            done[name] = 0
    return done
