"""The live topic `alerts`: what fires now."""

from __future__ import annotations

from collections import Counter
from typing import Any

from apps.alerts.models import Alert
from apps.alerts.selectors import alert_groups, alerts_firing, firing_counts
from apps.common.actor import Actor
from apps.common.conditions import Severity
from apps.live.overview import Picture
from apps.live.snapshots import SnapshotTopic

SHOWN_AT_MOST = 200


def alerts_picture() -> Picture:
    """The alerts that fire, the most severe first, up to SHOWN_AT_MOST; the counts are of all."""
    counts: Counter[str] = Counter()
    for count in firing_counts():
        counts[count.severity] += count.firing
    return {"counts": _counts(counts), "firing": [_form(a) for a in alerts_firing(at_most=SHOWN_AT_MOST)]}


def narrowed(picture: Picture, owner: Actor) -> Picture:
    """For an account limited to some groups: the alerts that concern one of them, and their counts."""
    if owner.groups is None:
        return picture
    mine = []
    for alert in picture["firing"]:
        groups = [name for name in alert["groups"] or () if name in owner.groups]
        if groups:
            mine.append({**alert, "groups": groups})
    return {"counts": _counts(Counter(alert["severity"] for alert in mine)), "firing": mine}


def _counts(counts: Counter[str]) -> dict[str, int]:
    return {severity.value: counts[severity.value] for severity in Severity}


def _form(alert: Alert) -> dict[str, Any]:
    """The same members as over REST."""
    return {
        "id": alert.pk,
        "rule": alert.rule_name,
        "condition": alert.condition,
        "subject_kind": alert.subject_kind,
        "subject": alert.subject,
        "state": alert.state,
        "severity": alert.severity,
        "message": alert.message,
        "value": alert.value,
        "unit": alert.unit,
        "groups": alert_groups(alert, visible=None),
        "since": _iso(alert.since),
        "last_seen_at": _iso(alert.last_seen_at),
        "fired_at": _iso(alert.fired_at),
        "resolved_at": _iso(alert.resolved_at),
        "acknowledged": alert.acknowledged_at is not None,
        "acknowledged_at": _iso(alert.acknowledged_at),
        "acknowledged_by": alert.acknowledged_by,
        "acknowledge_note": alert.acknowledge_note,
        "silenced": alert.is_silenced,
    }


def _iso(at: Any) -> str | None:
    return None if at is None else at.isoformat().replace("+00:00", "Z")


TOPICS = [SnapshotTopic(name="alerts", snapshot=alerts_picture, narrowed=narrowed)]
