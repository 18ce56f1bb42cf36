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


class RegistryRemoval(models.Model):
    """An object that left the registry and still has traces in the index; deleted with the last of them.

    `number` names the object's keys, `version` is that of its removal. The traces stay until `due_at`:
    they are what makes the index refuse publications from before the removal.
    """

    kind = models.CharField(max_length=16)
    name = models.CharField(max_length=256)
    number = models.BigIntegerField()
    version = models.BigIntegerField()
    due_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}, gone in version {self.version}"


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


class IndexStamp(models.Model):
    """The newest stamp that the living index was seen with, by key: milliseconds of the index's clock.

    An index that comes back with an older one is from an earlier time (kvcm_platform.index.life).
    """

    key = models.CharField(max_length=64, primary_key=True)
    at_ms = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.key} at {self.at_ms}"


class Installation(models.Model):
    """One row: what this installation of the platform calls itself where it shares something with others."""

    SINGLETON = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=SINGLETON)
    name = models.CharField(max_length=32)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="installation_is_one_row")]

    def __str__(self) -> str:
        return self.name
