"""Rules: those that conditions bring along, and what operators make of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.alerts.models import AlertRule
from apps.alerts.selectors import condition_get, rule_get
from apps.alerts.services.turns import alerts_resolve
from apps.alerts.validation import check_parameters, check_seconds, check_severity, check_subjects
from apps.audit.services import audit_record
from apps.common.actor import Actor
from apps.common.conditions import Condition, Severity
from apps.common.selectors import steps_done
from apps.common.services import step_done
from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.validation.values import check_object_name
from kvcm_platform.core.validation.versions import require_version

_SEEDER = Actor.system("alerts")
RULES_AT_MOST = 500
"""Each is evaluated every few seconds, one after the other."""


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """What operators set. Parameters not given have their condition's defaults."""

    parameters: Mapping[str, float] = field(default_factory=dict)
    severity: Severity = Severity.WARNING
    for_seconds: int = 0
    keep_firing_seconds: int = 0
    subjects: tuple[str, ...] = ()
    is_enabled: bool = True


def rule_add(*, acting: Actor, name: str, condition: str, settings: RuleSettings) -> AlertRule:
    """Add a rule. Raises INVALID_ARGUMENT, DUPLICATE for a taken name, CAPACITY for too many."""
    acting.require_all_groups()
    check_object_name(name)
    known = condition_get(name=condition)
    rule = AlertRule(name=name, condition=known.name, updated_at=timezone.now())
    _apply(rule, known, settings)
    with transaction.atomic():
        if AlertRule.objects.filter(name=name).exists():
            raise DomainError(Code.DUPLICATE, f"alert rule {name} exists", field="name")
        if acting is not _SEEDER and AlertRule.objects.count() >= RULES_AT_MOST:
            raise DomainError(Code.CAPACITY, f"there are {RULES_AT_MOST} rules already")
        rule.save(force_insert=True)
        audit_record(acting=acting, action="alert_rule.add", kind="alert_rule", name=name, after=_state(rule))
    return rule


@transaction.atomic
def rule_update(
    *, acting: Actor, name: str, changes: Mapping[str, Any], expected_version: int | None = None
) -> AlertRule:
    """Change a rule; members of `parameters` not given stay. A disabled one's alerts are resolved at once.

    Raises NOT_FOUND, INVALID_ARGUMENT, and CONFLICT for a stale `expected_version`.
    """
    acting.require_all_groups()
    rule = _locked(name)
    require_version(stored=rule.version, given=expected_version)
    before = _state(rule)
    parameters = {**rule.parameters, **changes.get("parameters", {})}
    settings = replace(_settings(rule), **{**changes, "parameters": parameters})
    _apply(rule, condition_get(name=rule.condition), settings)
    rule.version += 1
    rule.updated_at = timezone.now()
    rule.save(force_update=True)
    audit_record(
        acting=acting,
        action="alert_rule.update",
        kind="alert_rule",
        name=name,
        before=before,
        after=_state(rule),
    )
    if not rule.is_enabled:
        alerts_resolve(rule_name=name, at=rule.updated_at, why="the rule was disabled", by=acting.name)
    return rule


@transaction.atomic
def rule_remove(*, acting: Actor, name: str) -> None:
    """Remove a rule and resolve its alerts; it does not come back by itself. Raises NOT_FOUND."""
    acting.require_all_groups()
    rule = _locked(name)
    audit_record(acting=acting, action="alert_rule.remove", kind="alert_rule", name=name, before=_state(rule))
    rule.delete()
    alerts_resolve(rule_name=name, at=timezone.now(), why="the rule was removed", by=acting.name)


def rules_seed(*, conditions: Iterable[Condition]) -> list[str]:
    """Make the first rule of each condition that never had one; returns the names of the new ones.

    What an operator removed stays away; a rule of the same name that is there already stays as it is.
    """
    waiting = {f"alert rule {condition.name}": condition for condition in conditions}
    made = []
    for step in sorted(waiting.keys() - steps_done(waiting)):
        condition = waiting[step]
        with transaction.atomic():
            if not AlertRule.objects.filter(name=condition.name).exists():
                rule_add(
                    acting=_SEEDER,
                    name=condition.name,
                    condition=condition.name,
                    settings=RuleSettings(
                        severity=condition.severity,
                        for_seconds=condition.for_seconds,
                        keep_firing_seconds=condition.keep_firing_seconds,
                    ),
                )
                made.append(condition.name)
            step_done(name=step)
    return made


def _locked(name: str) -> AlertRule:
    rule_get(name=name)
    return AlertRule.objects.select_for_update().get(name=name)


def _apply(rule: AlertRule, condition: Condition, settings: RuleSettings) -> None:
    if not isinstance(settings.is_enabled, bool):
        raise invalid("enabled", "must be true or false")
    rule.parameters = check_parameters(condition, settings.parameters)
    rule.severity = check_severity("severity", settings.severity).value
    rule.for_seconds = check_seconds("for_seconds", settings.for_seconds)
    rule.keep_firing_seconds = check_seconds("keep_firing_seconds", settings.keep_firing_seconds)
    rule.subjects = check_subjects(settings.subjects)
    rule.is_enabled = settings.is_enabled


def _settings(rule: AlertRule) -> RuleSettings:
    return RuleSettings(
        parameters=rule.parameters,
        severity=Severity(rule.severity),
        for_seconds=rule.for_seconds,
        keep_firing_seconds=rule.keep_firing_seconds,
        subjects=tuple(rule.subjects),
        is_enabled=rule.is_enabled,
    )


def _state(rule: AlertRule) -> dict[str, Any]:
    return {
        "condition": rule.condition,
        "parameters": dict(rule.parameters),
        "severity": rule.severity,
        "for_seconds": rule.for_seconds,
        "keep_firing_seconds": rule.keep_firing_seconds,
        "subjects": list(rule.subjects),
        "is_enabled": rule.is_enabled,
    }
