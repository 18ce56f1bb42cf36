"""Enumerations of alerts."""

from enum import StrEnum

from apps.common.choices import choices_of
from apps.common.conditions import Severity

SEVERITIES = choices_of(Severity)


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


ALERT_STATES = choices_of(AlertState)
DELIVERY_STATES = choices_of(DeliveryState)
EVENTS = [(each, each) for each in ("firing", "resolved", "test")]
