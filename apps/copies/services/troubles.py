"""Keeps what stands in the way of policies from one round to the next, for alerts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction

from apps.copies.models import PolicyTrouble
from kvcm_platform.core.migration import Direction
from kvcm_platform.duties.copies import Blocked
from kvcm_platform.duties.copy_waves import Migration, Stop, Tally

SILENCE = timedelta(minutes=15)
"""Blocks that failed are passed over for ten minutes: rounds that do nothing say nothing new until then."""


@transaction.atomic
def troubles_note(
    *, results: Iterable[tuple[Migration, Tally]], blocked: Iterable[Blocked], now: datetime
) -> None:
    """Take over what a round met. A policy that asks for nothing any more is in no trouble."""
    known = {
        (row.group_name, row.direction): row
        for row in PolicyTrouble.objects.select_for_update().order_by("pk")
    }
    met = {
        (one.group.name, one.direction.value): one.reason
        for one in blocked
        if one.direction is not Direction.REQUEST
    }
    for what, tally in results:
        key = what.group.name, what.direction.value
        if what.direction is Direction.REQUEST:
            continue
        reason = trouble_of(what.direction, tally)
        if reason:
            met[key] = reason
        elif not tally.moved_bytes and key in known and now - known[key].seen_at < SILENCE:
            known.pop(key)
    for key, reason in met.items():
        row = known.pop(key, None) or PolicyTrouble(group_name=key[0], direction=key[1], since=now)
        row.reason, row.seen_at = reason, now
        row.save()
    PolicyTrouble.objects.filter(pk__in=[row.pk for row in known.values()]).delete()


def trouble_of(direction: Direction, tally: Tally) -> str:
    """Why a round of a policy did not get on; empty where it did, or says nothing about that."""
    stops = {Stop.STORAGE, Stop.FAILURES}
    if direction is Direction.DEMOTION:
        # What does not come back for want of room is served from where it is.
        stops.add(Stop.NO_ROOM)
    if tally.stop in stops:
        return tally.detail or "; ".join(tally.reasons) or "its storages fail"
    return "; ".join(tally.reasons) if tally.failed_blocks and not tally.moved_bytes else ""
