"""One round: ask every condition, then bring the alerts up to date.

Conditions are asked outside of transactions, each rule's turns are one. Who evaluates holds a lease
and every transaction looks whether it still does, so a worker that was stopped and wakes up changes
nothing, and one that dies leaves a state from which the next round goes on.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from apps.alerts.choices import AlertState
from apps.alerts.lifecycle import Known, Turn, turn
from apps.alerts.models import Alert, AlertRule, EvaluationLease
from apps.alerts.selectors import conditions_by_name, silences_active
from apps.alerts.services.rules import rules_seed
from apps.alerts.services.turns import (
    alert_begin,
    alert_fire,
    alert_note,
    alert_resolve,
    alerts_resolve,
    alerts_silence,
    alerts_tell,
    groups_note,
)
from apps.alerts.silencing import is_in_scope
from apps.common.conditions import Condition, Finding

log = structlog.get_logger(__name__)

LEASE_SECONDS = 30.0
ROUND_SECONDS = 20.0
"""Conditions that were not asked by then wait for the next round."""
FINDINGS_AT_MOST = 1000
"""Alerts that one rule may have at a time."""


class LeaseLost(Exception):
    """Another worker evaluates by now."""


@dataclass(slots=True)
class EvaluationReport:
    """What a round did. `is_held` False = another worker holds the lease; nothing was done."""

    is_held: bool = True
    rules: int = 0
    fired: int = 0
    resolved: int = 0
    unknown: int = 0
    queued: int = 0


def alerts_evaluate(*, clock: Callable[[], datetime] = timezone.now) -> EvaluationReport:
    """One round under the lease; safe to run anywhere, at any time, and to stop anywhere."""
    owner = secrets.token_hex(8)
    if not _lease_take(owner, clock()):
        return EvaluationReport(is_held=False)
    try:
        return _Round(owner, clock).run()
    except LeaseLost:
        log.warning("the evaluation of alerts was taken over", owner=owner)
        return EvaluationReport(is_held=False)
    finally:
        EvaluationLease.objects.filter(owner=owner).update(until=None)


class _Round:
    """`_asked` keeps what each condition found, by its parameters: several rules may ask the same."""

    def __init__(self, owner: str, clock: Callable[[], datetime]) -> None:
        self._owner = owner
        self._now = clock
        self._deadline = time.monotonic() + ROUND_SECONDS
        self._asked: dict[tuple[str, str], dict[str, Finding] | str] = {}
        self._report = EvaluationReport()

    def run(self) -> EvaluationReport:
        conditions = conditions_by_name()
        rules_seed(conditions=conditions.values())
        rules = list(AlertRule.objects.filter(is_enabled=True).order_by("name"))
        evaluated = []
        for rule in rules:
            if time.monotonic() > self._deadline:
                log.warning("conditions take long; some rules wait", waiting=len(rules) - self._report.rules)
                break
            self._report.rules += 1
            found = self._found(rule, conditions.get(rule.condition))
            if isinstance(found, str):
                self._report.unknown += 1
                self._note_error(rule, found)
            else:
                self._turns(rule, conditions[rule.condition], found)
                evaluated.append(rule)
        self._resolve_without_rule({rule.name for rule in rules})
        self._tell()
        AlertRule.objects.filter(pk__in=[rule.pk for rule in evaluated]).update(
            evaluated_at=self._now(), evaluation_error=""
        )
        return self._report

    def _found(self, rule: AlertRule, condition: Condition | None) -> dict[str, Finding] | str:
        """Findings by subject, or why they are not known. What is not known changes no alert."""
        if condition is None:
            return f"no app declares the condition {rule.condition} any more"
        parameters = {
            each.name: rule.parameters.get(each.name, each.default) for each in condition.parameters
        }
        key = condition.name, repr(sorted(parameters.items()))
        if key not in self._asked:
            self._asked[key] = _ask(condition, parameters)
        found = self._asked[key]
        if isinstance(found, str):
            return found
        return {name: each for name, each in found.items() if is_in_scope(rule.subjects, name)}

    def _turns(self, rule: AlertRule, condition: Condition, found: Mapping[str, Finding]) -> None:
        active = Alert.objects.filter(rule_name=rule.name).exclude(state=AlertState.RESOLVED.value)
        if not found and not active.exists():
            return
        with transaction.atomic():
            self._require_lease()
            # Removed or disabled meanwhile: its alerts were resolved with it.
            if not AlertRule.objects.select_for_update().filter(pk=rule.pk, is_enabled=True).exists():
                return
            known = {alert.subject: alert for alert in active.select_for_update().prefetch_related("groups")}
            for subject in sorted({*known, *sorted(found)[:FINDINGS_AT_MOST]}):
                self._one(rule, condition, subject, known.get(subject), found.get(subject))

    def _one(
        self,
        rule: AlertRule,
        condition: Condition,
        subject: str,
        alert: Alert | None,
        finding: Finding | None,
    ) -> None:
        now = self._now()
        step = turn(
            None if alert is None else Known(AlertState(alert.state), alert.since, alert.last_seen_at),
            is_found=finding is not None,
            now=now,
            for_seconds=rule.for_seconds,
            keep_firing_seconds=rule.keep_firing_seconds,
        )
        self._report.fired += step is Turn.FIRE
        self._report.resolved += step is Turn.RESOLVE
        if alert is None:
            if finding is not None:
                alert_begin(_new(rule, condition, subject), finding, at=now, is_firing=step is Turn.FIRE)
            return
        if step is Turn.FORGET or step is Turn.RESOLVE:
            alert_resolve(alert, at=now)
        if finding is None:
            return
        alert_note(alert, finding, at=now)
        alert.severity = rule.severity
        groups_note(alert, finding)
        if step is Turn.FIRE:
            alert_fire(alert, at=now)
        else:
            alert.save(update_fields=["last_seen_at", "message", "value", "severity"])

    def _resolve_without_rule(self, names: set[str]) -> None:
        orphaned = Alert.objects.exclude(state=AlertState.RESOLVED.value).exclude(rule_name__in=names)
        for name in sorted(set(orphaned.values_list("rule_name", flat=True))):
            with transaction.atomic():
                self._require_lease()
                if not AlertRule.objects.filter(name=name, is_enabled=True).exists():
                    why = "the rule was removed or disabled"
                    self._report.resolved += alerts_resolve(rule_name=name, at=self._now(), why=why)

    def _tell(self) -> None:
        """Silences begin and end here; what became free of them and fires is told to the receivers."""
        with transaction.atomic():
            self._require_lease()
            now = self._now()
            active = Alert.objects.exclude(state=AlertState.RESOLVED.value)
            silences = silences_active(now=now)
            concerned = active if silences else active.filter(is_silenced=True)
            alerts_silence(alerts=list(concerned), silences=silences)
            untold = active.filter(state=AlertState.FIRING.value, notified_at=None, is_silenced=False)
            self._report.queued = alerts_tell(alerts=list(untold), at=now)

    def _note_error(self, rule: AlertRule, error: str) -> None:
        if rule.evaluation_error != error:
            log.warning("an alert rule cannot be evaluated", rule=rule.name, error=error)
            AlertRule.objects.filter(pk=rule.pk).update(evaluation_error=error)

    def _require_lease(self) -> None:
        """Inside a transaction, which then holds the row: nobody takes the lease before it is over."""
        held = EvaluationLease.objects.select_for_update().filter(owner=self._owner, until__gt=self._now())
        if not held.exists():
            raise LeaseLost


def _new(rule: AlertRule, condition: Condition, subject: str) -> Alert:
    return Alert(
        rule_name=rule.name,
        condition=condition.name,
        subject_kind=condition.subject_kind,
        subject=subject,
        severity=rule.severity,
        unit=condition.unit,
    )


def _ask(condition: Condition, parameters: Mapping[str, float]) -> dict[str, Finding] | str:
    try:
        findings: Sequence[Finding] = list(condition.check(parameters))
    except Exception as error:  # noqa: BLE001 - whatever one condition meets, the others are evaluated
        return str(error) or type(error).__name__
    if len(findings) > FINDINGS_AT_MOST:
        log.warning("a condition holds for very many subjects", condition=condition.name, found=len(findings))
    return {finding.subject[:256]: finding for finding in findings}


def _lease_take(owner: str, now: datetime) -> bool:
    """Whether the lease was free, or its holder is past it.

    One that ends later than a whole lease from now was taken before the clock went back.
    """
    EvaluationLease.objects.get_or_create(pk=EvaluationLease.SINGLETON)
    until = now + timedelta(seconds=LEASE_SECONDS)
    is_over = Q(until__lte=now) | Q(until__gt=until + timedelta(seconds=LEASE_SECONDS))
    free = EvaluationLease.objects.filter(Q(until=None) | is_over)
    return free.update(owner=owner, until=until) == 1
