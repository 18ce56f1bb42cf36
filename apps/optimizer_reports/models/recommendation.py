"""Recommendations: what runs say about the settings of groups, and what became of it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from apps.optimizer_reports.choices import ADVICE_KINDS, ADVICE_STATES, AdviceState
from apps.optimizer_reports.models.run import OptimizerRun


class RunAdvice(models.Model):
    """That a run was looked at for recommendations, so that it is looked at once."""

    run = models.OneToOneField(
        OptimizerRun, on_delete=models.CASCADE, primary_key=True, related_name="advice"
    )
    at = models.DateTimeField()
    reason = models.TextField(blank=True)
    """Why nothing was recommended."""

    def __str__(self) -> str:
        return f"advice of run {self.run_id}"


class Recommendation(models.Model):
    """One change of a group's settings, or one thing to know about an instance, with its reason.

    `basis` are the settings that it was worked out for: where they are others by now it is stale, and
    cannot be applied. Names are text: it outlives the group and the run.
    """

    kind = models.CharField(max_length=16, choices=ADVICE_KINDS)
    group_name = models.CharField(max_length=128, db_index=True)
    instance_id = models.CharField(max_length=256, blank=True)
    run = models.ForeignKey(
        OptimizerRun, on_delete=models.SET_NULL, null=True, related_name="recommendations"
    )
    state = models.CharField(max_length=16, choices=ADVICE_STATES, default=AdviceState.OPEN.value)
    sentence = models.TextField()
    figures = models.JSONField(default=dict)
    changes = models.JSONField(null=True)
    """Members of the group's settings in the words of REST; null = there is nothing to apply."""
    basis = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)
    decided_by = models.CharField(max_length=150, blank=True)
    decide_note = models.TextField(blank=True)
    applied_version = models.BigIntegerField(null=True)
    """Of the group, after it was applied."""

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["state", "-id"], name="optimizer_advice_state")]
        constraints = [
            models.UniqueConstraint(
                fields=["group_name", "kind", "instance_id"],
                condition=Q(state=AdviceState.OPEN.value),
                name="optimizer_advice_is_open_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.group_name}: {self.state}"
