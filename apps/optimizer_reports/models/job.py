"""Jobs: pieces of work that one process carries out, each row its own lease."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from apps.optimizer_reports.choices import JOB_KINDS, JOB_STATES, OPEN_JOBS, JobKind, JobState
from apps.optimizer_reports.models.run import OptimizerRun
from apps.optimizer_reports.models.trace import OptimizerTrace


class OptimizerJob(models.Model):
    """The reading of a trace (`trace`), or one part of a run (`run`).

    A running job belongs to `holder` for as long as `seen_at` is fresh; a holder that comes back after that
    finds another one's name and stops.
    """

    kind = models.CharField(max_length=16, choices=JOB_KINDS)
    trace = models.ForeignKey(OptimizerTrace, on_delete=models.CASCADE, null=True, related_name="jobs")
    run = models.ForeignKey(OptimizerRun, on_delete=models.CASCADE, null=True, related_name="jobs")
    number = models.PositiveIntegerField(default=0)
    """Place in its run."""
    policy = models.CharField(max_length=64, blank=True)
    title = models.CharField(max_length=200, blank=True)
    plan = models.JSONField(default=dict)
    """What is to be computed: kvcm_platform.optimizer.analysis.JobPlan as JSON."""
    state = models.CharField(max_length=16, choices=JOB_STATES, default=JobState.QUEUED.value)
    progress = models.FloatField(default=0.0)
    work = models.BigIntegerField(default=0)
    """Block accesses to be simulated, all capacities together: what a rate is measured by."""
    estimate_seconds = models.FloatField(default=0.0)
    busy_seconds = models.FloatField(default=0.0)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    reason = models.TextField(blank=True)
    peak_bytes = models.BigIntegerField(default=0)
    """Memory that its process took at most."""

    holder = models.CharField(max_length=32, blank=True)
    seen_at = models.DateTimeField(null=True)
    tries = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["state", "id"], name="optimizer_job_state"),
            models.Index(fields=["policy", "-id"], name="optimizer_job_policy"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="optimizer_job_place"),
            models.UniqueConstraint(
                fields=["trace"], condition=Q(state__in=OPEN_JOBS), name="optimizer_trace_is_read_once"
            ),
            models.CheckConstraint(
                condition=Q(kind=JobKind.READ.value, trace__isnull=False, run__isnull=True)
                | Q(kind=JobKind.ANALYSE.value, run__isnull=False, trace__isnull=True),
                name="optimizer_job_belongs",
            ),
        ]

    def __str__(self) -> str:
        return f"job {self.number} {self.policy or self.kind}: {self.state}"


class OptimizerResult(models.Model):
    """What a job of a run found, apart from its row: lists never load it."""

    job = models.OneToOneField(
        OptimizerJob, on_delete=models.CASCADE, primary_key=True, related_name="result"
    )
    content = models.BinaryField()
    """JSON of kvcm_platform.optimizer.analysis, compressed with zstd."""
    bytes = models.BigIntegerField()
    """Of `content`."""

    def __str__(self) -> str:
        return f"result of job {self.job_id}: {self.bytes} bytes"
