"""Keeps history within bounds."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet

from apps.alerts.choices import AlertState, DeliveryState
from apps.alerts.models import Alert, AlertDelivery, AlertGroup, AlertSilence, AlertTransition

ALERTS_KEPT = timedelta(days=30)
ALERTS_AT_MOST = 20_000
DELIVERIES_KEPT = timedelta(days=7)
DELIVERIES_AT_MOST = 20_000
_A_RUN = 2000


def history_forget(*, now: datetime) -> dict[str, int]:
    """Delete what is old or too many, the oldest first, a bounded number a run; returns how many."""
    resolved = Alert.objects.filter(state=AlertState.RESOLVED.value)
    alerts = _beyond(resolved, Q(resolved_at__lt=now - ALERTS_KEPT), ALERTS_AT_MOST)
    ended = AlertDelivery.objects.exclude(state=DeliveryState.QUEUED.value)
    deliveries = _beyond(ended, Q(ended_at__lt=now - DELIVERIES_KEPT), DELIVERIES_AT_MOST)
    with transaction.atomic():
        AlertDelivery.objects.filter(pk__in=deliveries).delete()
    with transaction.atomic():
        AlertDelivery.objects.filter(alert__in=alerts).update(alert=None)
        AlertGroup.objects.filter(alert__in=alerts).delete()
        AlertTransition.objects.filter(alert__in=alerts).delete()
        Alert.objects.filter(pk__in=alerts).delete()
    silences, _ = AlertSilence.objects.filter(until__lt=now - ALERTS_KEPT).delete()
    return {"alerts": len(alerts), "deliveries": len(deliveries), "silences": silences}


def _beyond(rows: QuerySet, is_old: Q, at_most: int) -> list[int]:
    ids = rows.order_by("-id").values_list("id", flat=True)
    newest_too_many = ids[at_most : at_most + 1].first() or 0
    beyond = rows.filter(is_old | Q(id__lte=newest_too_many)).order_by("id")
    return list(beyond.values_list("id", flat=True)[:_A_RUN])
