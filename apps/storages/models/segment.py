"""The memory segments that make up a pool."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from apps.common.choices import choices_of
from apps.storages.choices import SegmentState
from apps.storages.models.storage import Storage
from kvcm_platform.core.registry import PoolSegment


class StorageSegment(models.Model):
    """One life of a node's memory. `number` is out of the storages' numbers and never given again.

    The row goes once the segment is lost and the index holds nothing more of it.
    """

    storage = models.ForeignKey(Storage, on_delete=models.CASCADE, related_name="segments")
    number = models.PositiveIntegerField(unique=True)
    node_id = models.CharField(max_length=128)
    segment_id = models.CharField(max_length=128)
    address = models.CharField(max_length=256)
    size_bytes = models.BigIntegerField()
    used_bytes = models.BigIntegerField(default=0)
    state = models.CharField(
        max_length=16, choices=choices_of(SegmentState), default=SegmentState.AVAILABLE.value
    )
    failures_in_row = models.PositiveIntegerField(default=0)
    found_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    missed_since = models.DateTimeField(null=True)
    """The first check of the row of those that missed it; None while it answers."""
    lost_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["number"]
        constraints = [
            # One that was given up and shows itself again begins anew, under another number.
            models.UniqueConstraint(
                fields=["storage", "node_id", "segment_id"],
                condition=~Q(state=SegmentState.LOST.value),
                name="segment_lives_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.storage_id}/{self.node_id}#{self.number}"

    def entry(self) -> PoolSegment:
        """The segment as the data plane sees it."""
        return PoolSegment(
            node_id=self.node_id,
            segment_id=self.segment_id,
            number=self.number,
            address=self.address,
            size_bytes=self.size_bytes,
            is_available=self.state == SegmentState.AVAILABLE,
        )
