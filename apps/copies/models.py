"""Migrations between storages: what was asked for, and what became of it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from apps.copies.choices import DIRECTIONS, OPEN_STATES, RETENTIONS, RUN_STATES
from kvcm_platform.core.migration import CopyRequest, Direction
from kvcm_platform.core.types import Retention

_OPEN = Q(state__in=[state.value for state in OPEN_STATES])


class CopyRun(models.Model):
    """One migration, of a request or of a group's policy. Names are text: a run outlives its objects.

    `there_blocks` were at the target before, `skipped_blocks` were busy, or gone meanwhile. What a policy
    asks for is one run from the trigger down to the low mark, over as many rounds as that takes.
    """

    direction = models.CharField(max_length=16, choices=DIRECTIONS)
    group_name = models.CharField(max_length=128, db_index=True)
    instance_id = models.CharField(max_length=256, blank=True)
    source = models.CharField(max_length=128)
    target = models.CharField(max_length=128)
    retention = models.CharField(max_length=16, choices=RETENTIONS)
    idle_seconds = models.BigIntegerField(default=0)
    most_bytes = models.BigIntegerField(default=0)
    max_bytes_per_second = models.BigIntegerField(default=0)
    is_verified = models.BooleanField(default=True)
    trigger = models.CharField(max_length=200)
    state = models.CharField(max_length=16, choices=RUN_STATES, db_index=True)
    is_cancel_wanted = models.BooleanField(default=False)
    planned_blocks = models.BigIntegerField(null=True)
    planned_bytes = models.BigIntegerField(null=True)
    copied_blocks = models.BigIntegerField(default=0)
    copied_bytes = models.BigIntegerField(default=0)
    there_blocks = models.BigIntegerField(default=0)
    there_bytes = models.BigIntegerField(default=0)
    skipped_blocks = models.BigIntegerField(default=0)
    failed_blocks = models.BigIntegerField(default=0)
    rounds = models.PositiveIntegerField(default=0)
    busy_seconds = models.FloatField(default=0.0)
    stop = models.CharField(max_length=16, blank=True)
    detail = models.TextField(blank=True)
    reasons = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(auto_now=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["group_name", "direction"],
                condition=_OPEN & ~Q(direction=Direction.REQUEST.value),
                name="one_open_run_of_a_policy",
            )
        ]

    def __str__(self) -> str:
        return f"{self.pk}: {self.source} to {self.target}"

    @property
    def moved_bytes(self) -> int:
        return self.copied_bytes + self.there_bytes

    def request(self) -> CopyRequest:
        """What is left to do, as the duty takes it."""
        return CopyRequest(
            id=str(self.pk),
            group=self.group_name,
            instance_id=self.instance_id,
            source=self.source,
            target=self.target,
            retention=Retention(self.retention),
            idle_seconds=self.idle_seconds,
            most_bytes=max(1, self.most_bytes - self.moved_bytes) if self.most_bytes else 0,
            max_bytes_per_second=self.max_bytes_per_second,
            is_verified=self.is_verified,
        )


class PolicyTrouble(models.Model):
    """Why a group's policy does not get on, as its rounds last met it; no row = it does, as far as known."""

    group_name = models.CharField(max_length=128)
    direction = models.CharField(max_length=16, choices=DIRECTIONS)
    reason = models.TextField()
    since = models.DateTimeField()
    seen_at = models.DateTimeField()

    class Meta:
        ordering = ["group_name", "direction"]
        constraints = [
            models.UniqueConstraint(fields=["group_name", "direction"], name="one_trouble_of_a_policy")
        ]

    def __str__(self) -> str:
        return f"{self.group_name}: {self.reason}"
