"""What became of storages: turns, samples of the checks, incidents."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from apps.common.choices import choices_of
from apps.storages.choices import HealthEvent, IncidentKind
from apps.storages.models.storage import Storage


class StorageHealthChange(models.Model):
    """A turn of a storage's state or of one of its segments'; the checks in between said the same."""

    storage = models.ForeignKey(Storage, on_delete=models.CASCADE, related_name="health_changes")
    at = models.DateTimeField()
    event = models.CharField(max_length=24, choices=choices_of(HealthEvent))
    node_id = models.CharField(max_length=128, blank=True)
    """Of a pool: the node whose segment it is about."""
    is_available = models.BooleanField()
    """Whether the storage as a whole was available afterwards."""
    message = models.TextField(blank=True)
    latency_ms = models.FloatField(null=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.storage_id} {self.event} at {self.at}"


class StorageHealthSample(models.Model):
    """One check of a storage. `second` is unix time, so that the database can put them into buckets."""

    storage = models.ForeignKey(Storage, on_delete=models.CASCADE, related_name="health_samples")
    second = models.BigIntegerField(db_index=True)
    is_ok = models.BooleanField()
    latency_ms = models.FloatField(null=True)
    message = models.CharField(max_length=200, blank=True)

    class Meta:
        indexes = [models.Index(fields=["storage", "second"], name="sample_of_storage_by_second")]

    def __str__(self) -> str:
        return f"{self.storage_id} {'ok' if self.is_ok else 'failed'} at {self.second}"


class StorageIncident(models.Model):
    """Something that was wrong from a moment to another one. It outlives the storage's removal."""

    storage_name = models.CharField(max_length=128, db_index=True)
    kind = models.CharField(max_length=24, choices=choices_of(IncidentKind))
    node_id = models.CharField(max_length=128, blank=True)
    started_at = models.DateTimeField(db_index=True)
    ended_at = models.DateTimeField(null=True, db_index=True)
    reason = models.TextField(blank=True)

    class Meta:
        ordering = ["-started_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["storage_name", "kind", "node_id"],
                condition=Q(ended_at__isnull=True),
                name="incident_is_open_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.storage_name} {self.kind} since {self.started_at}"
