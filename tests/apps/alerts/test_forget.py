"""History stays within bounds, the oldest goes first, and what is alive stays."""

from __future__ import annotations

from datetime import timedelta

import pytest

from apps.alerts.models import Alert, AlertSilence, AlertTransition
from apps.alerts.services import forget, history_forget
from tests.apps.alerts.conftest import World

pytestmark = pytest.mark.django_db(transaction=True)


def resolved(world: World, subject: str) -> None:
    for subjects in ((subject,), (subject,), (), ()):
        world.holds_for(*subjects)
        world.round()
        world.passes(20)


def test_old_ones_go_and_living_ones_stay(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for subject in ("a", "b", "c"):
        resolved(world, subject)
    world.holds_for("d")
    world.round()
    assert history_forget(now=world.now) == {"alerts": 0, "deliveries": 0, "silences": 0}
    monkeypatch.setattr(forget, "ALERTS_AT_MOST", 2)
    assert history_forget(now=world.now)["alerts"] == 1
    assert [alert.subject for alert in Alert.objects.order_by("id")] == ["b", "c", "d"]
    AlertSilence.objects.create(
        until=world.now, reason="x", created_by="olga", created_at=world.now - timedelta(hours=1)
    )
    world.passes(31 * 24 * 3600)
    assert history_forget(now=world.now) == {"alerts": 2, "deliveries": 0, "silences": 1}
    assert [alert.subject for alert in Alert.objects.all()] == ["d"]
    assert {step.alert_id for step in AlertTransition.objects.all()} == {Alert.objects.get().pk}
