"""Counts what groups did and held into months, hour by hour, before the history by the hour goes.

Only hours are taken that can get no further points. Each hour is one transaction with the position, by
compare-and-set: it may be stopped anywhere, and of two that count at once one writes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import date

from django.db import transaction
from django.db.models import F

from apps.optimizer_reports.models.cost import SavingsMonth, SavingsPosition
from apps.optimizer_reports.selectors.savings import AMOUNT_NAMES, month_of
from apps.usage.selectors.amounts_by_group import first_hour, group_amounts, hours_done
from kvcm_platform.core.traffic_amounts import TrafficAmounts

HOUR = 3600


class Overtaken(Exception):
    """Somebody else counted this hour."""


def savings_fold(*, seconds: float = 20.0) -> int:
    """Count the complete hours that are not counted yet, for about `seconds` at most; returns how many."""
    deadline = time.monotonic() + seconds
    done = 0
    try:
        while time.monotonic() < deadline and _fold_hour():
            done += 1
    except Overtaken:
        pass
    return done


def _fold_hour() -> bool:
    complete = hours_done()
    if complete is None:
        return False
    begin = _position()
    if begin is None or begin >= complete:
        return False
    amounts = group_amounts(begin, begin + HOUR)
    with transaction.atomic():
        held = SavingsPosition.objects.select_for_update().filter(hours_done=begin)
        if not held.update(hours_done=begin + HOUR):
            raise Overtaken
        _add(month_of(begin), amounts)
    return True


def _position() -> int | None:
    """The hour to be counted next; None before there is a history."""
    known = SavingsPosition.objects.values_list("hours_done", flat=True).first()
    if known is not None:
        return known
    first = first_hour()
    if first is None:
        return None
    SavingsPosition.objects.bulk_create([SavingsPosition(hours_done=first)], ignore_conflicts=True)
    return SavingsPosition.objects.values_list("hours_done", flat=True).get()


def _add(month: date, amounts: Mapping[str, TrafficAmounts]) -> None:
    SavingsMonth.objects.bulk_create(
        (SavingsMonth(group_name=name, month=month) for name in amounts), ignore_conflicts=True
    )
    for name, more in amounts.items():
        raised = {member: F(member) + getattr(more, member) for member in AMOUNT_NAMES}
        SavingsMonth.objects.filter(group_name=name, month=month).update(**raised)
