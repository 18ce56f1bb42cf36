from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from apps.alerts import selectors
from apps.alerts.api import views
from apps.alerts.services import evaluate
from apps.alerts.services.evaluate import EvaluationReport, alerts_evaluate
from apps.common.conditions import Condition, Finding, Parameter, Parameters, Severity


@dataclass
class World:
    """A world in which one condition holds for whatever a test says, and whose clock it turns."""

    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    findings: dict[str, Finding] = field(default_factory=dict)
    error: Exception | None = None
    asked: list[Parameters] = field(default_factory=list)
    meanwhile: Callable[[], object] = lambda: None
    """What happens while the condition is asked."""

    def check(self, parameters: Parameters) -> list[Finding]:
        self.asked.append(dict(parameters))
        self.meanwhile()
        if self.error is not None:
            raise self.error
        return list(self.findings.values())

    def holds_for(self, *subjects: str, groups: tuple[str, ...] | None = None, value: float = 1.0) -> None:
        self.findings = {
            name: Finding(name, f"{name} hangs at {value:g}.", value, groups) for name in subjects
        }

    def passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def round(self) -> EvaluationReport:
        return alerts_evaluate(clock=lambda: self.now)


@pytest.fixture
def conditions(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replace what the apps declare."""

    def declare(*declared: Condition) -> None:
        by_name = {condition.name: condition for condition in declared}
        for module in (selectors, evaluate, views):
            monkeypatch.setattr(module, "conditions_by_name", lambda: by_name)

    return declare


@pytest.fixture
def world(conditions: Callable[..., None]) -> World:
    made = World()
    conditions(
        Condition(
            name="disk_hangs",
            title="Disk hangs",
            help="A disk hangs.",
            subject_kind="storage",
            check=made.check,
            severity=Severity.CRITICAL,
            for_seconds=10,
            keep_firing_seconds=20,
            unit="ratio",
            parameters=(Parameter("used_ratio", 0.9, 0.1, 1.0, "ratio", "From where on."),),
        )
    )
    return made
