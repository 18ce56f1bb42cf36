"""Schedules, reports and recommendations as REST shows them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apps.instances.selectors import GroupDetail
from apps.optimizer_reports.models import Recommendation, Report, ReportSchedule
from apps.optimizer_reports.selectors.recommendations import changed_now, is_foreign, is_stale
from apps.optimizer_reports.selectors.schedules import cron_words, next_times

_SCHEDULE = (
    *("name", "note", "cron", "timezone", "source", "instances", "capture_seconds", "template"),
    *("keep_reports", "hit_rate_threshold", "capacity_threshold", "recipients", "mails_when"),
    *("version", "created_by", "created_at", "updated_at"),
)
_REPORT = (
    *("id", "due_at", "trigger", "state", "asked_by", "created_at", "ended_at", "reason", "figures"),
    *("change", "is_changed"),
)
_MAIL = ("recipient", "state", "attempts", "due_at", "error", "ended_at")
_ADVICE = (
    *("id", "kind", "state", "sentence", "figures", "changes", "created_at", "expires_at"),
    *("decided_at", "decided_by", "decide_note", "applied_version"),
)


def schedule_shown(schedule: ReportSchedule, now: datetime, last: Mapping[int, Report]) -> dict[str, Any]:
    """`last` are reports by number; of it that which the row names in `last_report_id`."""
    newest = last.get(getattr(schedule, "last_report_id", None) or 0)
    return {
        **{name: getattr(schedule, name) for name in _SCHEDULE},
        "instance_group": schedule.group_name,
        "trace": schedule.trace_id,
        "paused": schedule.is_paused,
        "cron_words": cron_words(schedule),
        "next_runs": next_times(schedule, now),
        "last_report": None if newest is None else report_shown(newest),
    }


def report_shown(report: Report) -> dict[str, Any]:
    mails = list(report.mails.all())
    return {
        **{name: getattr(report, name) for name in _REPORT},
        "schedule": report.schedule.name,
        "instance_group": report.schedule.group_name,
        "trace": report.trace_id,
        "run": report.run_id,
        "mails": [{name: getattr(mail, name) for name in _MAIL} for mail in mails],
    }


def recommendation_shown(row: Recommendation, detail: GroupDetail | None) -> dict[str, Any]:
    """`detail` is its group as it is now; None = it is gone."""
    is_open = row.state == "open"
    return {
        **{name: getattr(row, name) for name in _ADVICE},
        "instance_group": row.group_name,
        "instance_id": row.instance_id or None,
        "run": row.run_id,
        "foreign_trace": is_foreign(row),
        "stale": is_open and is_stale(row, detail),
        "applicable": is_open and row.changes is not None and not is_stale(row, detail),
        "group_version": None if detail is None else detail.row.version,
        "differences": changed_now(row, detail) if is_open else {},
    }
