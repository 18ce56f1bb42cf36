"""Rows that belong to no single feature: the registry's version and numbers that are never reused."""

from __future__ import annotations

from django.db import models


class RegistryState(models.Model):
    """One row: the version of the whole registry, raised in the transaction of each change."""

    SINGLETON = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=SINGLETON)
    version = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="registry_state_is_one_row")]

    def __str__(self) -> str:
        return f"registry version {self.version}"


class PendingPublication(models.Model):
    """A committed version that Redis may not have yet; deleted once it has.

    Versions alone would not do: a later publication that succeeds hides the gap of one that failed.
    """

    version = models.BigIntegerField(primary_key=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"version {self.version}"


class NumberSequence(models.Model):
    """The last number given out of one kind. Outlives the objects, so a number never returns."""

    kind = models.CharField(max_length=32, primary_key=True)
    last = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.kind}: {self.last}"


class StepDone(models.Model):
    """A step of the installation that must not be repeated, even where its result was removed since."""

    name = models.CharField(max_length=64, primary_key=True)
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name
