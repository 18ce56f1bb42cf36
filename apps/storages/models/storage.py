"""One storage: what operators set, and what the checks found."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db import models
from django.db.models import Q

from apps.storages.choices import STORAGE_TYPES, HealthState, SegmentState
from kvcm_platform.core.departure import Mark
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

    # Its departure: no new blocks while it drains, none at all once it leaves.
    is_leaving = models.BooleanField(default=False)
    is_abandoned = models.BooleanField(default=False)
    departing_since = models.DateTimeField(null=True)
    drained_at = models.DateTimeField(null=True)
    departing_from_blocks = models.BigIntegerField(null=True)
    departing_from_bytes = models.BigIntegerField(null=True)
    departing_mark_at = models.DateTimeField(null=True)
    departing_mark_bytes = models.BigIntegerField(null=True)
    departing_bytes_per_second = models.FloatField(null=True)

    # What the checks found. `is_full` is for either reason: the device says so, or its high watermark.
    is_available = models.BooleanField(default=True)
    is_full = models.BooleanField(default=False)
    is_over_capacity = models.BooleanField(default=False)
    full_reason = models.TextField(blank=True)
    failures_in_row = models.PositiveIntegerField(default=0)
    successes_in_row = models.PositiveIntegerField(default=0)
    health_message = models.TextField(blank=True)
    health_checked_at = models.DateTimeField(null=True)
    health_latency_ms = models.FloatField(null=True)
    device_used_bytes = models.BigIntegerField(null=True)
    device_capacity_bytes = models.BigIntegerField(null=True)
    free_bytes = models.BigIntegerField(null=True)
    # Live bytes of the index here from which on groups give blocks back, and where they end.
    high_bytes = models.BigIntegerField(null=True)
    low_bytes = models.BigIntegerField(null=True)
    content_life = models.CharField(max_length=256, blank=True)
    needs_content_check = models.BooleanField(default=False)
    content_checked_at = models.DateTimeField(null=True)
    # What it says it dropped by itself, and which of that a check of its blocks was asked for.
    dropped_objects = models.BigIntegerField(null=True)
    dropped_objects_checked = models.BigIntegerField(null=True)

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

    @property
    def unavailable_reason(self) -> str:
        """Why it is not served or takes no new blocks; empty where neither is so."""
        if not self.is_available:
            return self.health_message
        return self.full_reason if self.is_full else ""

    @property
    def departing_mark(self) -> Mark | None:
        """From where the rate of its departure is counted."""
        if self.departing_mark_at is None or self.departing_mark_bytes is None:
            return None
        at = self.departing_mark_at.timestamp()
        return Mark(at, self.departing_mark_bytes, self.departing_bytes_per_second)

    @departing_mark.setter
    def departing_mark(self, mark: Mark | None) -> None:
        self.departing_mark_at = None if mark is None else datetime.fromtimestamp(mark.at, UTC)
        self.departing_mark_bytes = None if mark is None else mark.bytes_left
        self.departing_bytes_per_second = None if mark is None else mark.bytes_per_second

    def entry(self) -> StorageEntry:
        """The storage as the data plane sees it; asks for its segments unless they were prefetched."""
        saved = () if self.pk is None else self.segments.all()
        segments = sorted(saved, key=lambda segment: segment.number)
        lost = [segment.number for segment in segments if segment.state == SegmentState.LOST]
        return StorageEntry(
            name=self.name,
            number=self.number,
            type=StorageType(self.type),
            spec=self.spec,
            is_enabled=self.is_enabled,
            is_draining=self.is_draining,
            is_available=self.is_available,
            unavailable_reason=self.unavailable_reason,
            is_full=self.is_full,
            check_storage_available_when_open=self.check_storage_available_when_open,
            weight=self.weight,
            capacity_bytes=self.capacity_bytes,
            free_bytes=self.free_bytes,
            high_bytes=self.high_bytes,
            low_bytes=self.low_bytes,
            segments=tuple(segment.entry() for segment in segments if segment.number not in lost),
            lost_numbers=tuple(lost),
            is_leaving=self.is_leaving,
            is_abandoned=self.is_abandoned,
            version=self.version,
        )
