"""Traces, runs and jobs; cost models and months; schedules and their reports; recommendations."""

from apps.optimizer_reports.models.cost import (
    OptimizerCostModel,
    OptimizerGroupCost,
    SavingsMonth,
    SavingsPosition,
)
from apps.optimizer_reports.models.job import OptimizerJob, OptimizerResult
from apps.optimizer_reports.models.recommendation import Recommendation, RunAdvice
from apps.optimizer_reports.models.run import OptimizerRun, OptimizerRunGroup
from apps.optimizer_reports.models.schedule import Report, ReportDocument, ReportMail, ReportSchedule
from apps.optimizer_reports.models.trace import OptimizerTrace, OptimizerTraceGroup

__all__ = [
    "OptimizerCostModel",
    "OptimizerGroupCost",
    "OptimizerJob",
    "OptimizerResult",
    "OptimizerRun",
    "OptimizerRunGroup",
    "OptimizerTrace",
    "OptimizerTraceGroup",
    "Recommendation",
    "Report",
    "ReportDocument",
    "ReportMail",
    "ReportSchedule",
    "RunAdvice",
    "SavingsMonth",
    "SavingsPosition",
]
