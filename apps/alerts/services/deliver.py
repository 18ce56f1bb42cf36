"""Sends what waits for receivers.

A message is claimed before it is sent: its `due_at` moves past the timeout. So two senders never
have the same one, and one that dies leaves it to be sent again; a receiver may then get it twice and
tells by `delivery`. The messages of one receiver go out in order, one at a time; a slow
one keeps no other waiting.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from django.conf import settings
from django.db import close_old_connections, transaction
from django.db.models import Q
from django.utils import timezone

from apps.alerts.choices import DeliveryState
from apps.alerts.models import AlertDelivery, AlertReceiver
from apps.alerts.webhook import Outcome, networks, post

ATTEMPTS_AT_MOST = 8
FIRST_RETRY_SECONDS = 5.0
LONGEST_RETRY_SECONDS = 600.0
RUN_SECONDS = 20.0
_AT_ONCE = 8
_A_RUN = 200
_CLAIM_MARGIN = timedelta(seconds=10)
_FARTHEST = timedelta(seconds=2 * LONGEST_RETRY_SECONDS)
"""No message is due later than this: the clock went back, and it must not wait for the old time."""


@dataclass(slots=True)
class DeliveriesReport:
    sent: int = 0
    postponed: int = 0
    failed: int = 0


def deliveries_send(*, send: Callable[[AlertDelivery], Outcome] | None = None) -> DeliveriesReport:
    """Send what is due, for RUN_SECONDS at most; safe to run beside itself and to stop anywhere."""
    due = [ids for ids in map(_due, AlertReceiver.objects.filter(is_enabled=True)) if ids]
    report = DeliveriesReport()
    if not due:
        return report
    deadline = time.monotonic() + RUN_SECONDS

    def of_receiver(ids: list[int]) -> list[DeliveryState]:
        try:
            return _send_in_order(ids, deadline, send)
        finally:
            close_old_connections()

    with ThreadPoolExecutor(max_workers=min(_AT_ONCE, len(due))) as pool:
        for states in pool.map(of_receiver, due):
            report.sent += states.count(DeliveryState.SENT)
            report.failed += states.count(DeliveryState.FAILED)
            report.postponed += states.count(DeliveryState.QUEUED)
    return report


def _due(receiver: AlertReceiver) -> list[int]:
    """The oldest messages, up to the first that has to wait: a later one must not overtake it."""
    now = timezone.now()
    queued = AlertDelivery.objects.filter(receiver=receiver, state=DeliveryState.QUEUED.value)
    rows = queued.order_by("id").values_list("id", "due_at")[:_A_RUN]
    return [pk for pk, _ in takewhile(lambda row: row[1] <= now or row[1] > now + _FARTHEST, rows)]


def _send_in_order(
    ids: list[int], deadline: float, send: Callable[[AlertDelivery], Outcome] | None
) -> list[DeliveryState]:
    """One receiver's messages until one has to wait."""
    states = []
    for pk in ids:
        if time.monotonic() > deadline:
            break
        delivery = _claim(pk)
        if delivery is None:
            break
        states.append(DeliveryState(delivery_send(delivery=delivery, send=send).state))
        if states[-1] is DeliveryState.QUEUED:
            break
    return states


def claimed_until(receiver: AlertReceiver, *, now: datetime) -> datetime:
    """By then who claimed a message of this receiver has sent it, or died."""
    return now + timedelta(seconds=receiver.timeout_seconds) + _CLAIM_MARGIN


def _claim(pk: int) -> AlertDelivery | None:
    with transaction.atomic():
        rows = AlertDelivery.objects.select_for_update(of=("self",)).select_related("receiver")
        now = timezone.now()
        is_due = Q(due_at__lte=now) | Q(due_at__gt=now + _FARTHEST)
        delivery = rows.filter(is_due, pk=pk, state=DeliveryState.QUEUED.value).first()
        if delivery is not None:
            delivery.due_at = claimed_until(delivery.receiver, now=now)
            delivery.save(update_fields=["due_at"])
        return delivery


def delivery_send(
    *,
    delivery: AlertDelivery,
    is_last_try: bool = False,
    send: Callable[[AlertDelivery], Outcome] | None = None,
) -> AlertDelivery:
    """Send a claimed message and note how it went; a failed one is due again later, or given up."""
    if delivery.state != DeliveryState.QUEUED.value:
        return delivery
    outcome = (send or _posted)(delivery)
    now = timezone.now()
    delivery.attempts += 1
    delivery.status, delivery.error = outcome.status, outcome.error
    delivery.latency_ms = round(outcome.latency_ms, 1)
    if outcome.is_sent:
        delivery.state = DeliveryState.SENT.value
    elif is_last_try or delivery.attempts >= ATTEMPTS_AT_MOST:
        delivery.state = DeliveryState.FAILED.value
    else:
        delivery.due_at = now + timedelta(seconds=_retry_seconds(delivery.attempts))
    delivery.ended_at = None if delivery.state == DeliveryState.QUEUED.value else now
    changed = ["attempts", "status", "error", "latency_ms", "state", "due_at", "ended_at"]
    # The receiver may have been removed meanwhile, and its messages with it.
    AlertDelivery.objects.filter(pk=delivery.pk).update(**{name: getattr(delivery, name) for name in changed})
    return delivery


def _retry_seconds(attempts: int) -> float:
    """5, 10, 20 … at most 600 s, each up to a fifth longer so that senders do not march in step."""
    grown = min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** (attempts - 1))
    return grown * (1 + random.random() / 5)  # noqa: S311


def _posted(delivery: AlertDelivery) -> Outcome:
    receiver: AlertReceiver = delivery.receiver
    headers = {receiver.secret_header: receiver.secret} if receiver.secret else {}
    body = {"delivery": delivery.pk, "sent_at": timezone.now().isoformat(), **delivery.body}
    return post(
        receiver.url,
        body,
        headers=headers,
        timeout=receiver.timeout_seconds,
        allowed=networks(settings.ENV["KVCM_WEBHOOK_NETWORKS"]),
    )
