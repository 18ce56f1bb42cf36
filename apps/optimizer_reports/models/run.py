"""Optimizer runs, the jobs that they are made of, and what these found."""

from __future__ import annotations

from django.db import models

from apps.optimizer_reports.choices import RUN_ORIGINS, RUN_STATES, RunOrigin, RunState
from apps.optimizer_reports.models.trace import OptimizerTrace


class OptimizerRun(models.Model):
    """One analysis of a trace. It outlives the trace, so what of the trace explains it is copied.

    `spec` is kvcm_platform.optimizer.analysis.AnalysisSpec as JSON. Who may see it: as OptimizerTrace.
    """

    name = models.CharField(max_length=128, blank=True)
    note = models.TextField(blank=True)
    origin = models.CharField(max_length=16, choices=RUN_ORIGINS, default=RunOrigin.REQUEST.value)
    trace = models.ForeignKey(OptimizerTrace, on_delete=models.SET_NULL, null=True, related_name="runs")
    trace_name = models.CharField(max_length=128)
    trace_facts = models.JSONField(default=dict)
    """requests, blocks, distinct_blocks, span_us, format, instances, types of the trace."""
    spec = models.JSONField(default=dict)
    group_name = models.CharField(max_length=128, blank=True, db_index=True)
    """The instance group whose quota the result is held against; empty = of none."""
    is_of_all_groups = models.BooleanField(default=True)
    state = models.CharField(max_length=16, choices=RUN_STATES, default=RunState.QUEUED.value)
    is_cancel_asked = models.BooleanField(default=False)
    progress = models.FloatField(default=0.0)
    estimate_seconds = models.FloatField(default=0.0)
    asked_by = models.CharField(max_length=150)
    asked_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    reason = models.TextField(blank=True)
    summary = models.JSONField(null=True)
    """Headline figures, once it is over (kvcm_platform.optimizer.analysis.summarise)."""

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["state", "-id"], name="optimizer_run_state"),
            models.Index(fields=["asked_at"], name="optimizer_run_asked"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(progress__gte=0, progress__lte=1), name="optimizer_run_progress"
            )
        ]

    def __str__(self) -> str:
        return f"optimizer run {self.pk} of {self.trace_name}: {self.state}"


class OptimizerRunGroup(models.Model):
    """An instance group whose traffic a run is about, by name."""

    run = models.ForeignKey(OptimizerRun, on_delete=models.CASCADE, related_name="groups")
    name = models.CharField(max_length=128, db_index=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["run", "name"], name="optimizer_run_group_once")]

    def __str__(self) -> str:
        return f"{self.run_id} is about {self.name}"
