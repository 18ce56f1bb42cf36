"""The page of a scheduled report: the run's own, with what changed, is recommended and was saved."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from apps.common.actor import Actor
from apps.optimizer_reports.models import OptimizerRun, Report
from apps.optimizer_reports.selectors.recommendations import recommendations_open
from apps.optimizer_reports.selectors.results import run_page
from apps.optimizer_reports.selectors.savings import GroupSaving, month_of, savings_of_month

_MONTHS = 2
_GROUPS_SHOWN = 50


def report_page(report: Report, run: OptimizerRun) -> str:
    """HTML that stands alone. Raises INVALID_ARGUMENT where the run has no curve."""
    # On use: what prints loads the compiled code of what it prints.
    from kvcm_platform.optimizer.report import Table

    group = report.schedule.group_name
    tables: list[Any] = []
    if report.change is not None:
        sentence = report.change["sentence"]
        tables.append(Table("Changes", ("", ""), (("Since the report before", sentence),)))
    advice = recommendations_open(group_name=group) if group else []
    if advice:
        rows = tuple((one.kind, one.sentence) for one in advice)
        tables.append(Table("Recommendations", ("kind", "reason"), rows))
    savings = _savings_rows(group)
    if savings:
        tables.append(
            Table(
                "Savings by real traffic",
                ("month", "instance group", "tokens hit", "GPU hours", "saved", "storage", "left"),
                savings,
                (False, False, True, True, True, True, True),
                note="At least: the history knows how many tokens were hit, not where in their prompts.",
            )
        )
    return run_page(run=run, tables=tables)


def _savings_rows(group: str) -> tuple[tuple[str, ...], ...]:
    """This month so far and the one before, of the schedule's group, or of all where it is of none."""
    watcher = Actor.system("optimizer")
    if group:
        watcher = Actor(watcher.name, watcher.role, frozenset({group}))
    month, rows = month_of(timezone.now().timestamp()), []
    for _ in range(_MONTHS):
        found = savings_of_month(month, acting=watcher)
        rows += [_savings_row(one) for one in found.groups[:_GROUPS_SHOWN]]
        month = month_of(found.since.timestamp() - 1)
    return tuple(rows)


def _savings_row(one: GroupSaving) -> tuple[str, ...]:
    worth = one.saving
    figures: tuple[str, ...] = ("–",) * 4
    if worth is not None:
        amounts = (worth.saved_money, worth.storage_money, worth.net_money)
        figures = (f"{worth.gpu_hours:,.2f}", *(f"{value:,.2f} {one.currency}" for value in amounts))
    return f"{one.month:%Y-%m}", one.group_name, f"{one.amounts.hit_tokens:,}", *figures
