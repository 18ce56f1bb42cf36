"""Cost models, and what groups did and held by month: what savings are worked out of."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class OptimizerCostModel(models.Model):
    """What computing and storing cost. `settings` is kvcm_platform.optimizer.roi.cost.CostModel as JSON."""

    name = models.CharField(max_length=128, unique=True)
    note = models.TextField(blank=True)
    settings = models.JSONField()
    is_default = models.BooleanField(default=False)
    version = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["is_default"], condition=Q(is_default=True), name="optimizer_cost_default_is_one"
            )
        ]

    def __str__(self) -> str:
        return self.name


class OptimizerGroupCost(models.Model):
    """The cost model of a group that has not the default one. The name, not a reference: the group may go."""

    group_name = models.CharField(max_length=128, unique=True)
    cost_model = models.ForeignKey(OptimizerCostModel, on_delete=models.CASCADE, related_name="groups")

    class Meta:
        ordering = ["group_name"]

    def __str__(self) -> str:
        return f"{self.group_name} at {self.cost_model_id}"


class SavingsMonth(models.Model):
    """What one group did and held in one month (UTC), of the hours before SavingsPosition.hours_done.

    Sums alone: what they are worth follows from the cost model that is asked for. The rows stay when the
    history by the hour goes. Members are those of kvcm_platform.core.traffic_amounts.TrafficAmounts.
    """

    group_name = models.CharField(max_length=128)
    month = models.DateField()
    """Its first day."""
    requests = models.BigIntegerField(default=0)
    requested_tokens = models.BigIntegerField(default=0)
    hit_tokens = models.BigIntegerField(default=0)
    hit_token_positions = models.FloatField(default=0.0)
    byte_seconds = models.FloatField(default=0.0)
    known_seconds = models.FloatField(default=0.0)

    class Meta:
        ordering = ["group_name", "month"]
        constraints = [
            models.UniqueConstraint(fields=["month", "group_name"], name="optimizer_saving_of_a_month_once")
        ]

    def __str__(self) -> str:
        return f"{self.group_name} in {self.month:%Y-%m}"


class SavingsPosition(models.Model):
    """One row: up to which hour (unix seconds) the months count. Changed in the transaction of their rows."""

    SINGLETON = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=SINGLETON)
    hours_done = models.BigIntegerField()

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="optimizer_savings_position_is_one")]

    def __str__(self) -> str:
        return f"hours before {self.hours_done}"
