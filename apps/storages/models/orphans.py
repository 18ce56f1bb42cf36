"""Searches for what nobody refers to on a storage."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from apps.common.choices import choices_of
from apps.storages.choices import OrphanRunState
from apps.storages.models.storage import Storage

UNDER_WAY = (OrphanRunState.QUEUED.value, OrphanRunState.RUNNING.value)


class OrphanRun(models.Model):
    """One search, and the clean-up after it unless it `is_dry`."""

    storage = models.ForeignKey(Storage, on_delete=models.CASCADE, related_name="orphan_runs")
    state = models.CharField(
        max_length=16, choices=choices_of(OrphanRunState), default=OrphanRunState.QUEUED.value
    )
    is_dry = models.BooleanField(default=True)
    min_age_seconds = models.PositiveIntegerField()
    asked_by = models.CharField(max_length=256)
    asked_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    reason = models.TextField(blank=True)
    """Why it failed."""
    figures = models.JSONField(default=dict)
    """Members of duties.orphan_order.OrphanFigures but the samples, as they were at `seen_at`."""
    samples = models.JSONField(default=list)
    is_cancel_asked = models.BooleanField(default=False)

    holder = models.CharField(max_length=32, blank=True)
    """Who carries it out: a process that stops may come back, and is told by this that another took over."""
    seen_at = models.DateTimeField(null=True)
    """Last sign of life of the holder."""
    tries = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["storage"], condition=Q(state__in=UNDER_WAY), name="orphan_run_is_alone"
            )
        ]

    def __str__(self) -> str:
        return f"orphans of {self.storage_id}: {self.state}"
