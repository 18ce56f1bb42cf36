"""What groups saved and cost, by month: sums that are kept, with what is not counted in yet."""

from __future__ import annotations

import calendar
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime

from apps.common.actor import Actor
from apps.optimizer_reports.models.cost import SavingsMonth, SavingsPosition
from apps.optimizer_reports.selectors.costs import CostModels
from apps.usage.selectors.amounts_by_group import group_amounts, points_done
from kvcm_platform.core.traffic_amounts import TrafficAmounts
from kvcm_platform.optimizer.savings import Saving, saving

AMOUNT_NAMES = tuple(TrafficAmounts.__dataclass_fields__)
_MINUTE = 60
_FIRST_HOURS = 2 * 3600


@dataclass(frozen=True, slots=True)
class GroupSaving:
    """One group in one month. Money is None where the group has no cost model; `currency` is empty then."""

    group_name: str
    month: date
    since: datetime
    until: datetime
    """What is counted up to."""
    amounts: TrafficAmounts
    cost_model: str = ""
    currency: str = ""
    saving: Saving | None = None

    @property
    def known_ratio(self) -> float:
        """The share of the time in which somebody looked at what was held."""
        seconds = (self.until - self.since).total_seconds()
        return min(1.0, self.amounts.known_seconds / seconds) if seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class SavingsOfMonth:
    """Of the groups that may be seen, by name."""

    month: date
    since: datetime
    until: datetime
    groups: tuple[GroupSaving, ...]

    @property
    def amounts(self) -> TrafficAmounts:
        return sum((group.amounts for group in self.groups), TrafficAmounts())

    @property
    def saving(self) -> Saving | None:
        """Of the groups that have a cost model; None where none has."""
        known = [group.saving for group in self.groups if group.saving is not None]
        return sum(known, Saving()) if known else None

    @property
    def currency(self) -> str:
        return next((group.currency for group in self.groups if group.currency), "")


def month_begin(month: date) -> int:
    """Unix seconds of its first moment, UTC."""
    return calendar.timegm((month.year, month.month, 1, 0, 0, 0))


def next_month(month: date) -> date:
    return date(month.year + month.month // 12, month.month % 12 + 1, 1)


def month_of(moment: float) -> date:
    """The first day of the month (UTC) of a unix time."""
    return datetime.fromtimestamp(moment, UTC).date().replace(day=1)


def savings_months(*, acting: Actor) -> list[date]:
    """The months of which something is counted, the newest first."""
    rows = SavingsMonth.objects.all()
    if acting.groups is not None:
        rows = rows.filter(group_name__in=acting.groups)
    found = set(rows.values_list("month", flat=True).distinct())
    done = points_done()
    if done is not None:
        found.add(month_of(done))
    return sorted(found, reverse=True)


def savings_of_month(month: date, *, acting: Actor) -> SavingsOfMonth:
    """What is known of a month so far. A handful of queries, however many groups."""
    begin, end = month_begin(month), month_begin(next_month(month))
    kept = SavingsMonth.objects.filter(month=month)
    amounts = {row.group_name: TrafficAmounts(*(getattr(row, name) for name in AMOUNT_NAMES)) for row in kept}
    counted = SavingsPosition.objects.values_list("hours_done", flat=True).first()
    done = points_done() or begin
    # Before the first hour is complete there is nothing else.
    uncounted = done - done % _MINUTE - _FIRST_HOURS if counted is None else counted
    fresh_begin, fresh_end = max(begin, uncounted), min(end, done - done % _MINUTE)
    for name, more in group_amounts(fresh_begin, fresh_end).items():
        amounts[name] = amounts.get(name, TrafficAmounts()) + more
    until = min(end, max(done, begin))
    return _shown(month, begin, until, amounts, acting)


def _shown(
    month: date, begin: int, until: int, amounts: Mapping[str, TrafficAmounts], acting: Actor
) -> SavingsOfMonth:
    costs = CostModels()
    since, end = datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(until, UTC)
    groups = []
    for name in sorted(amounts):
        if acting.groups is not None and name not in acting.groups:
            continue
        found = costs.of(name)
        more = {}
        if found is not None:
            row, cost = found
            more = {
                "cost_model": row.name,
                "currency": cost.currency,
                "saving": saving(amounts[name], cost),
            }
        groups.append(GroupSaving(name, month, since, end, amounts[name], **more))
    return SavingsOfMonth(month, since, end, tuple(groups))
