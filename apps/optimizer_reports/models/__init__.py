"""Traces, runs, jobs."""

from apps.optimizer_reports.models.job import OptimizerJob, OptimizerResult
from apps.optimizer_reports.models.run import OptimizerRun, OptimizerRunGroup
from apps.optimizer_reports.models.trace import OptimizerTrace, OptimizerTraceGroup

__all__ = [
    "OptimizerJob",
    "OptimizerResult",
    "OptimizerRun",
    "OptimizerRunGroup",
    "OptimizerTrace",
    "OptimizerTraceGroup",
]
