"""What may be worth an alert about the optimizer."""

from __future__ import annotations

from apps.common.conditions import Condition
from apps.optimizer_reports.conditions_reports import REPORT_CONDITIONS
from apps.optimizer_reports.conditions_runs import RUN_CONDITIONS

CONDITIONS: list[Condition] = [*RUN_CONDITIONS, *REPORT_CONDITIONS]
