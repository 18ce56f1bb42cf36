"""What may be worth an alert about the optimizer."""

from __future__ import annotations

from apps.common.conditions import Condition
from apps.optimizer_reports.conditions_reports import REPORT_CONDITIONS

CONDITIONS: list[Condition] = [*REPORT_CONDITIONS]
