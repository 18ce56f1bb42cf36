"""Enumerations of alerts."""

from enum import StrEnum

from apps.common.conditions import Severity

SEVERITIES = [(each.value, each.value) for each in Severity]


class AlertState(StrEnum):
    """Pending = its condition holds, not for long enough yet. Resolved is the end; a later one is new."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


class DeliveryState(StrEnum):
    """Dropped = the receiver's queue was full; failed = given up after the last try."""

    QUEUED = "queued"
    SENT = "sent"
    FAILED = "failed"
    DROPPED = "dropped"


ALERT_STATES = [(each.value, each.value) for each in AlertState]
DELIVERY_STATES = [(each.value, each.value) for each in DeliveryState]
EVENTS = [(each, each) for each in ("firing", "resolved", "test")]
