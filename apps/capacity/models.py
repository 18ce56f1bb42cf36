"""Reclaim runs: what each chose and freed, and how far their reports were taken over."""

from __future__ import annotations

from django.db import models

from apps.capacity.choices import RECLAIM_STATES, TRIGGERS


class ReclaimRun(models.Model):
    """One run as it was last reported (kvcm_platform.core.reclaim.runs.RunReport says what each member is).

    Names are text: a run outlives its objects. A run that somebody asked for has its row before its first
    report. `is_final` tells that the reclaimer itself reported the end; an end that was only concluded
    gives way to whatever is reported later.
    """

    run_id = models.CharField(max_length=16, unique=True)
    group_name = models.CharField(max_length=128)
    trigger = models.CharField(max_length=16, choices=TRIGGERS)
    state = models.CharField(max_length=16, choices=RECLAIM_STATES)
    policy = models.CharField(max_length=16, blank=True)
    budget = models.CharField(max_length=24, blank=True)
    scopes = models.JSONField(default=list)
    request = models.JSONField(null=True)
    asked_by = models.CharField(max_length=150, blank=True)
    is_cancel_wanted = models.BooleanField(default=False)
    is_final = models.BooleanField(default=False)
    planned_blocks = models.BigIntegerField(default=0)
    planned_bytes = models.BigIntegerField(default=0)
    chosen_blocks = models.BigIntegerField(default=0)
    chosen_bytes = models.BigIntegerField(default=0)
    freed_blocks = models.BigIntegerField(default=0)
    freed_bytes = models.BigIntegerField(default=0)
    failed_blocks = models.BigIntegerField(default=0)
    failed_bytes = models.BigIntegerField(default=0)
    by_instance = models.JSONField(default=dict)
    by_storage = models.JSONField(default=dict)
    capacity_bytes = models.BigIntegerField(default=0)
    used_before_bytes = models.BigIntegerField(default=0)
    used_after_bytes = models.BigIntegerField(default=0)
    oldest_use_at = models.DateTimeField(null=True)
    newest_use_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    began_at = models.DateTimeField(null=True)
    marked_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    reported_at = models.DateTimeField(null=True)
    rounds = models.PositiveIntegerField(default=0)
    busy_ms = models.BigIntegerField(default=0)
    stop = models.CharField(max_length=16, blank=True)
    detail = models.TextField(blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["group_name", "-id"], name="reclaim_run_of_group"),
            models.Index(fields=["state", "-id"], name="reclaim_run_state"),
            models.Index(fields=["created_at"], name="reclaim_run_created"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} of {self.group_name}: {self.state}"

    @property
    def waiting_blocks(self) -> int:
        """Chosen and neither freed nor refused by their storage."""
        return max(0, self.chosen_blocks - self.freed_blocks - self.failed_blocks)

    @property
    def waiting_bytes(self) -> int:
        return max(0, self.chosen_bytes - self.freed_bytes - self.failed_bytes)


class ReclaimTotal(models.Model):
    """What the runs of a group with one trigger did in all, those that are forgotten by now included."""

    group_name = models.CharField(max_length=128)
    trigger = models.CharField(max_length=16, choices=TRIGGERS)
    runs = models.BigIntegerField(default=0)
    failed_runs = models.BigIntegerField(default=0)
    chosen_blocks = models.BigIntegerField(default=0)
    chosen_bytes = models.BigIntegerField(default=0)
    freed_blocks = models.BigIntegerField(default=0)
    freed_bytes = models.BigIntegerField(default=0)
    seconds = models.FloatField(default=0.0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["group_name", "trigger"], name="one_total_of_a_trigger")
        ]

    def __str__(self) -> str:
        return f"{self.group_name} {self.trigger}: {self.runs} runs"


class ReportCursor(models.Model):
    """One row: the last report that was taken over, an id of the reports' stream."""

    SINGLETON = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=SINGLETON)
    position = models.CharField(max_length=48, default="0-0")

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="report_cursor_is_one_row")]

    def __str__(self) -> str:
        return self.position
