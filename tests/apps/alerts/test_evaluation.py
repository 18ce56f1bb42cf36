"""Rounds of evaluation: what fires when, what is told to whom, and that no death loses a thing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection, transaction

from apps.alerts.models import Alert, AlertDelivery, AlertRule, AlertSilence, AlertTransition, EvaluationLease
from apps.alerts.services import (
    ReceiverSettings,
    alert_acknowledge,
    receiver_add,
    rule_add,
    rule_remove,
    rule_update,
    silence_end,
)
from apps.alerts.services.evaluate import LEASE_SECONDS
from apps.alerts.services.rules import RuleSettings
from apps.audit.models import AuditEntry, Event
from apps.common.conditions import Severity
from kvcm_platform.core.errors import Code, DomainError
from tests.apps.alerts.conftest import World
from tests.factories.actors import ADMIN, OPERATOR

pytestmark = pytest.mark.django_db(transaction=True)


def states() -> list[tuple[str, str]]:
    return [(alert.subject, alert.state) for alert in Alert.objects.order_by("id")]


def steps() -> list[str]:
    return [step.what for step in AlertTransition.objects.order_by("id")]


def fire(world: World, *subjects: str, **more: object) -> None:
    """Let the condition hold for long enough."""
    world.holds_for(*subjects, **more)  # type: ignore[arg-type]
    world.round()
    world.passes(10)
    world.round()


def receiver(**changes: object) -> None:
    values: dict = {"url": "http://127.0.0.1:9/", "least_severity": Severity.WARNING, **changes}
    receiver_add(acting=ADMIN, name="pager", settings=ReceiverSettings(**values))


def test_a_condition_must_hold_for_a_while_and_be_gone_for_a_while(world: World) -> None:
    world.round()
    assert states() == []
    world.holds_for("nfs_a")
    world.round()
    assert states() == [("nfs_a", "pending")]
    world.passes(9)
    world.round()
    assert states() == [("nfs_a", "pending")]
    world.passes(1)
    assert world.round().fired == 1
    assert states() == [("nfs_a", "firing")]
    world.holds_for()
    world.passes(19)
    world.round()
    assert states() == [("nfs_a", "firing")]
    world.passes(1)
    assert world.round().resolved == 1
    assert states() == [("nfs_a", "resolved")]
    assert steps() == ["pending", "firing", "resolved"]
    assert [event.kind for event in Event.objects.order_by("id")] == ["alert.firing", "alert.resolved"]
    alert = Alert.objects.get()
    assert alert.since + timedelta(seconds=10) == alert.fired_at
    assert (alert.value, alert.unit, alert.message) == (1.0, "ratio", "nfs_a hangs at 1.")


def test_one_that_flaps_fires_once(world: World) -> None:
    fire(world, "nfs_a")
    for _ in range(6):
        world.holds_for()
        world.passes(15)
        world.round()
        world.holds_for("nfs_a")
        world.passes(5)
        world.round()
    assert states() == [("nfs_a", "firing")]
    assert steps() == ["pending", "firing"]


def test_what_was_only_pending_leaves_no_trace(world: World) -> None:
    world.holds_for("nfs_a")
    world.round()
    world.holds_for()
    world.passes(1)
    world.round()
    assert states() == [] and steps() == [] and not Event.objects.exists()


def test_a_second_time_is_a_new_alert(world: World) -> None:
    fire(world, "nfs_a")
    world.holds_for()
    world.passes(20)
    world.round()
    fire(world, "nfs_a", value=2.0)
    assert states() == [("nfs_a", "resolved"), ("nfs_a", "firing")]


def test_what_is_not_known_changes_nothing_and_is_said(world: World) -> None:
    fire(world, "nfs_a")
    world.error = ConnectionError("the index does not answer")
    world.passes(1000)
    assert world.round().unknown == 1
    assert states() == [("nfs_a", "firing")]
    rule = AlertRule.objects.get()
    assert rule.evaluation_error == "the index does not answer"
    world.error = None
    world.round()
    assert AlertRule.objects.get().evaluation_error == ""
    assert AlertRule.objects.get().evaluated_at > rule.evaluated_at


def test_message_value_groups_and_severity_follow(world: World) -> None:
    fire(world, "nfs_a", groups=("chat",))
    rule_update(acting=ADMIN, name="disk_hangs", changes={"severity": Severity.INFO})
    world.holds_for("nfs_a", groups=("chat", "search"), value=0.5)
    world.passes(5)
    world.round()
    alert = Alert.objects.get()
    assert (alert.value, alert.message, alert.severity) == (0.5, "nfs_a hangs at 0.5.", "info")
    assert [group.name for group in alert.groups.all()] == ["chat", "search"]
    assert alert.last_seen_at == world.now
    world.holds_for("nfs_a", groups=None)
    world.round()
    assert Alert.objects.get().is_of_all_groups and not Alert.objects.get().groups.exists()


def test_the_first_rule_comes_once_and_stays_removed(world: World) -> None:
    world.round()
    rule = AlertRule.objects.get()
    assert (rule.name, rule.severity, rule.for_seconds) == ("disk_hangs", "critical", 10)
    assert rule.parameters == {"used_ratio": 0.9}
    assert AuditEntry.objects.get(action="alert_rule.add").actor == "system:alerts"
    fire(world, "nfs_a")
    rule_remove(acting=ADMIN, name="disk_hangs")
    assert states() == [("nfs_a", "resolved")]
    world.round()
    assert not AlertRule.objects.exists()


def test_parameters_and_scope_of_several_rules(world: World) -> None:
    world.round()
    rule_update(acting=ADMIN, name="disk_hangs", changes={"is_enabled": False})
    early = RuleSettings(parameters={"used_ratio": 0.5}, subjects=("nfs_*", "hf3fs"))
    rule_add(acting=ADMIN, name="early", condition="disk_hangs", settings=early)
    rule_add(acting=ADMIN, name="twin", condition="disk_hangs", settings=early)
    world.holds_for("nfs_a", "hf3fs_b")
    world.asked.clear()
    world.round()
    assert world.asked == [{"used_ratio": 0.5}]
    assert states() == [("nfs_a", "firing"), ("nfs_a", "firing")]


def test_a_disabled_rule_has_no_alerts(world: World) -> None:
    fire(world, "nfs_a")
    rule_update(acting=ADMIN, name="disk_hangs", changes={"is_enabled": False})
    assert states() == [("nfs_a", "resolved")]
    assert AlertTransition.objects.order_by("-id")[0].message == "the rule was disabled"
    world.passes(60)
    world.round()
    assert states() == [("nfs_a", "resolved")]


def test_a_condition_that_nobody_declares_any_more(world: World, conditions: Callable[..., None]) -> None:
    fire(world, "nfs_a")
    conditions()
    world.passes(60)
    world.round()
    assert states() == [("nfs_a", "firing")]
    assert "disk_hangs" in AlertRule.objects.get().evaluation_error


def test_only_the_holder_of_the_lease_evaluates(world: World) -> None:
    world.round()
    EvaluationLease.objects.update(owner="another", until=world.now + timedelta(seconds=LEASE_SECONDS))
    world.holds_for("nfs_a")
    assert not world.round().is_held
    assert states() == []
    world.passes(LEASE_SECONDS)
    assert world.round().is_held
    assert states() == [("nfs_a", "pending")]


def test_a_lease_from_before_the_clock_went_back_holds_nobody_up(world: World) -> None:
    """Its holder died, and the old time is hours away."""
    world.round()
    EvaluationLease.objects.update(owner="dead", until=world.now + timedelta(hours=5))
    world.holds_for("nfs_a")
    assert world.round().is_held
    assert states() == [("nfs_a", "pending")]


def test_who_lost_the_lease_meanwhile_changes_nothing(world: World) -> None:
    fire(world, "nfs_a")
    world.holds_for()
    world.passes(60)
    world.meanwhile = lambda: EvaluationLease.objects.update(owner="another")
    assert not world.round().is_held
    assert states() == [("nfs_a", "firing")]
    assert EvaluationLease.objects.get().owner == "another"


def test_a_rule_that_was_disabled_meanwhile_raises_nothing(world: World) -> None:
    world.round()
    world.holds_for("nfs_a")
    world.meanwhile = lambda: rule_update(acting=ADMIN, name="disk_hangs", changes={"is_enabled": False})
    world.round()
    assert states() == []


def test_silenced_ones_are_shown_and_not_told(world: World) -> None:
    receiver()
    silence = AlertSilence.objects.create(
        subject="nfs_*",
        until=world.now + timedelta(seconds=60),
        reason="disks are changed",
        created_by="olga",
        created_at=world.now,
    )
    fire(world, "nfs_a")
    assert Alert.objects.get().is_silenced and not AlertDelivery.objects.exists()
    world.passes(50)
    world.round()
    assert not Alert.objects.get().is_silenced
    assert [delivery.event for delivery in AlertDelivery.objects.all()] == ["firing"]
    assert silence_end(acting=ADMIN, pk=silence.pk).until < world.now + timedelta(seconds=3600 * 24 * 366)


def test_receivers_are_told_once_of_each_turn(world: World) -> None:
    receiver(sends_resolved=True)
    fire(world, "nfs_a")
    for _ in range(3):
        world.passes(5)
        world.round()
    world.holds_for()
    world.passes(20)
    world.round()
    told = list(AlertDelivery.objects.order_by("id"))
    assert [delivery.event for delivery in told] == ["firing", "resolved"]
    assert told[0].body["alert"]["subject"] == "nfs_a" and told[1].body["alert"]["resolved_at"]


def test_a_receiver_of_critical_alerts_is_told_of_nothing_less(world: World) -> None:
    receiver(least_severity=Severity.CRITICAL)
    world.round()
    rule_update(acting=ADMIN, name="disk_hangs", changes={"severity": Severity.WARNING})
    fire(world, "nfs_a")
    assert not AlertDelivery.objects.exists()


def test_acknowledging(world: World) -> None:
    fire(world, "nfs_a")
    pk = Alert.objects.get().pk
    for _ in range(2):
        alert = alert_acknowledge(acting=OPERATOR, pk=pk, note="on it")
    assert (alert.acknowledged_by, alert.acknowledge_note) == ("olga", "on it")
    assert steps() == ["pending", "firing", "acknowledged"]
    world.passes(5)
    world.round()
    assert Alert.objects.get().acknowledged_by == "olga"
    alert_acknowledge(acting=OPERATOR, pk=pk, is_acknowledged=False)
    assert Alert.objects.get().acknowledged_at is None
    world.holds_for()
    world.passes(30)
    world.round()
    with pytest.raises(DomainError) as refused:
        alert_acknowledge(acting=OPERATOR, pk=pk)
    assert refused.value.code is Code.CONFLICT


class Killed(BaseException):
    """Stands for kill -9: nothing after it reaches the database, and what was not committed is gone."""


def test_a_death_before_any_statement_costs_nothing(world: World) -> None:
    """The whole life of an alert, told to a receiver, with a death before the n-th statement for every n."""
    receiver()
    world.round()
    deaths, is_through = 0, False
    while not is_through:
        Alert.objects.all().delete()
        AlertDelivery.objects.all().delete()
        Event.objects.all().delete()
        EvaluationLease.objects.update(until=None)
        is_through = _life_with_a_death(world, before=deaths)
        world.passes(LEASE_SECONDS + 60)
        assert states() == [("nfs_a", "resolved")], deaths
        assert steps()[-2:] == ["firing", "resolved"] and len(steps()) == 3, deaths
        told = [delivery.event for delivery in AlertDelivery.objects.order_by("id")]
        assert told == ["firing", "resolved"], deaths
        assert [event.kind for event in Event.objects.order_by("id")] == ["alert.firing", "alert.resolved"]
        deaths += 1
    assert deaths > 40


def _life_with_a_death(world: World, *, before: int) -> bool:
    """Whether the life ended before its time to die came."""
    count = 0

    def die(execute: Callable, sql: str, params: object, many: bool, context: object) -> object:
        nonlocal count
        if count >= before:
            raise Killed
        count += 1
        return execute(sql, params, many, context)

    is_through = True
    with connection.execute_wrapper(die):
        try:
            _life(world)
        except Killed:
            is_through = False
    if connection.in_atomic_block:
        transaction.rollback()
    world.passes(LEASE_SECONDS)
    _life(world)
    return is_through


def _life(world: World) -> None:
    """Holds until it fires, then is gone; goes on from wherever an earlier try ended."""
    if Alert.objects.filter(state="resolved").exists():
        return
    if not Alert.objects.filter(state="firing", notified_at__isnull=False).exists():
        fire(world, "nfs_a")
    world.holds_for()
    world.passes(20)
    world.round()
