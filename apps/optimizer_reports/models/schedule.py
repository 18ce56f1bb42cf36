"""Schedules of optimizer runs, and the reports that they make."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from apps.optimizer_reports.choices import (
    MAIL_STATES,
    MAIL_WHENS,
    OPEN_REPORTS,
    REPORT_SOURCES,
    REPORT_STATES,
    REPORT_TRIGGERS,
    MailState,
    MailWhen,
)
from apps.optimizer_reports.models.run import OptimizerRun
from apps.optimizer_reports.models.trace import OptimizerTrace


class ReportSchedule(models.Model):
    """When a report is made, out of which trace, and whom it is sent to.

    The row of django-celery-beat that sends the task follows from this one (services/beat_rows.py). Times
    up to `since` are not due: it was made, resumed or changed then.
    """

    name = models.CharField(max_length=128, unique=True)
    note = models.TextField(blank=True)
    group_name = models.CharField(max_length=128, blank=True, db_index=True)
    """The instance group whose quota results are held against, and whose accounts see it; empty = of none."""
    cron = models.CharField(max_length=200)
    timezone = models.CharField(max_length=64, default="UTC")
    source = models.CharField(max_length=16, choices=REPORT_SOURCES)
    trace = models.ForeignKey(
        OptimizerTrace, on_delete=models.SET_NULL, null=True, related_name="report_schedules"
    )
    instances = models.JSONField(default=list)
    """Whose traffic is captured; empty = of all instances of the group."""
    capture_seconds = models.PositiveIntegerField(default=600)
    template = models.JSONField(default=dict)
    """What is computed: kvcm_platform.optimizer.analysis.AnalysisSpec as JSON."""
    keep_reports = models.PositiveIntegerField(default=30)
    hit_rate_threshold = models.FloatField(default=0.02)
    """A hit rate at the quota that moved by this much is a change (0.02 = two points)."""
    capacity_threshold = models.FloatField(default=0.1)
    """So is a best capacity that moved by this share of the one before."""
    recipients = models.JSONField(default=list)
    mails_when = models.CharField(max_length=16, choices=MAIL_WHENS, default=MailWhen.CHANGED.value)
    is_paused = models.BooleanField(default=False)
    since = models.DateTimeField()
    version = models.BigIntegerField(default=1)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Report(models.Model):
    """One report: the trace and the run that it is made of, and what it found.

    `due_at` is the time of the schedule that it is for, empty where somebody asked for it: so that a time is
    never served twice, however many beats and workers there are.
    """

    schedule = models.ForeignKey(ReportSchedule, on_delete=models.CASCADE, related_name="reports")
    due_at = models.DateTimeField(null=True)
    trigger = models.CharField(max_length=16, choices=REPORT_TRIGGERS)
    state = models.CharField(max_length=16, choices=REPORT_STATES)
    trace = models.ForeignKey(OptimizerTrace, on_delete=models.SET_NULL, null=True, related_name="reports")
    run = models.ForeignKey(OptimizerRun, on_delete=models.SET_NULL, null=True, related_name="reports")
    asked_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    reason = models.TextField(blank=True)
    figures = models.JSONField(null=True)
    """What reports are compared by (kvcm_platform.optimizer.report_figures)."""
    change = models.JSONField(null=True)
    """Against the report before: {report, hit_rate, best_capacity_bytes, sentence}."""
    is_changed = models.BooleanField(default=False)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["state", "id"], name="optimizer_report_state")]
        constraints = [
            models.UniqueConstraint(fields=["schedule", "due_at"], name="optimizer_report_of_a_time_once"),
            models.UniqueConstraint(
                fields=["schedule"],
                condition=Q(state__in=OPEN_REPORTS),
                name="optimizer_one_report_at_a_time",
            ),
        ]

    def __str__(self) -> str:
        return f"report {self.pk} of {self.schedule_id}: {self.state}"


class ReportDocument(models.Model):
    """The standalone HTML of a report, apart from its row: it outlives the run, and lists never load it."""

    report = models.OneToOneField(Report, on_delete=models.CASCADE, primary_key=True, related_name="document")
    html = models.BinaryField()
    """gzip."""

    def __str__(self) -> str:
        return f"document of report {self.report_id}"


class ReportMail(models.Model):
    """One message to one recipient, written with the end of its report: none is lost or made up.

    A queued one is due at `due_at`; who sends it moves that past its timeout first, so that a sender that
    dies leaves it to the next one.
    """

    report = models.ForeignKey(Report, on_delete=models.CASCADE, related_name="mails")
    recipient = models.CharField(max_length=254)
    state = models.CharField(max_length=16, choices=MAIL_STATES, default=MailState.QUEUED.value)
    attempts = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField()
    error = models.TextField(blank=True)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["state", "due_at"], name="optimizer_mail_due")]
        constraints = [
            models.UniqueConstraint(fields=["report", "recipient"], name="optimizer_mail_goes_once")
        ]

    def __str__(self) -> str:
        return f"report {self.report_id} to {self.recipient}: {self.state}"
