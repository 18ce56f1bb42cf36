"""Storages, their health history, and which instance groups name them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from apps.storages.choices import STORAGE_TYPES, HealthState
from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.types import StorageType

MAX_NUMBER = 65_535


class Storage(models.Model):
    """One storage. `number` stands for it in block records and is never given again."""

    name = models.CharField(max_length=128, unique=True)
    number = models.PositiveIntegerField(unique=True)
    type = models.CharField(max_length=16, choices=STORAGE_TYPES)
    spec = models.JSONField()
    is_enabled = models.BooleanField(default=True)
    is_draining = models.BooleanField(default=False)
    check_storage_available_when_open = models.BooleanField(default=False)
    weight = models.PositiveIntegerField(null=True)
    capacity_bytes = models.BigIntegerField(null=True)
    high_watermark_ratio = models.FloatField(null=True)
    low_watermark_ratio = models.FloatField(null=True)
    maintenance_note = models.TextField(blank=True)
    version = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField()

    is_available = models.BooleanField(default=True)
    is_full = models.BooleanField(default=False)
    failures_in_row = models.PositiveIntegerField(default=0)
    health_message = models.TextField(blank=True)
    health_checked_at = models.DateTimeField(null=True)
    health_latency_ms = models.FloatField(null=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=Q(number__gte=1, number__lte=MAX_NUMBER), name="storage_number_in_range"
            ),
            models.CheckConstraint(
                condition=Q(type__in=[kind.value for kind in StorageType]), name="storage_type_is_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def health_state(self) -> HealthState:
        if self.health_checked_at is None:
            return HealthState.UNKNOWN
        return HealthState.OK if self.is_available else HealthState.FAILING

    def entry(self) -> StorageEntry:
        """The storage as the data plane sees it."""
        return StorageEntry(
            name=self.name,
            number=self.number,
            type=StorageType(self.type),
            spec=self.spec,
            is_enabled=self.is_enabled,
            is_draining=self.is_draining,
            is_available=self.is_available,
            unavailable_reason="" if self.is_available and not self.is_full else self.health_message,
            is_full=self.is_full,
            check_storage_available_when_open=self.check_storage_available_when_open,
            weight=self.weight,
            capacity_bytes=self.capacity_bytes,
            version=self.version,
        )


class StorageHealthChange(models.Model):
    """A turn of a storage's health; the checks in between said the same."""

    storage = models.ForeignKey(Storage, on_delete=models.CASCADE, related_name="health_changes")
    at = models.DateTimeField()
    is_available = models.BooleanField()
    message = models.TextField(blank=True)
    latency_ms = models.FloatField(null=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.storage_id} {'available' if self.is_available else 'failing'} at {self.at}"


class StorageCandidate(models.Model):
    """One place in a group's order of storages. Names, not references: the storage may come later."""

    group_name = models.CharField(max_length=128, db_index=True)
    storage_name = models.CharField(max_length=128, db_index=True)
    position = models.PositiveIntegerField()

    class Meta:
        ordering = ["group_name", "position"]
        constraints = [
            models.UniqueConstraint(fields=["group_name", "storage_name"], name="candidate_is_named_once"),
            models.UniqueConstraint(fields=["group_name", "position"], name="candidate_has_its_place"),
        ]

    def __str__(self) -> str:
        return f"{self.group_name}[{self.position}] = {self.storage_name}"
