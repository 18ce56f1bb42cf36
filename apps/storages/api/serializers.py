"""Shapes of storages. Ranges and required members are checked by `core.validation`, for every door alike."""

from __future__ import annotations

from django.utils import timezone
from rest_framework import serializers

from apps.common.api.strict import StrictSerializer
from apps.common.choices import choices_of
from apps.storages.choices import (
    STORAGE_TYPES,
    BulkAction,
    DepartureKind,
    HealthEvent,
    HealthState,
    IncidentKind,
    SegmentState,
)
from apps.storages.models import StorageIncident

_CAPACITY = "bytes of blocks that it may hold; at its high watermark it takes no new ones"
_HIGH = "share of its capacity and of its device from which it takes no new blocks; 1 without one"
_LOW = "share below which it takes them again; without one a twentieth (or a tenth of the high one) below"


class HealthOutput(serializers.Serializer):
    """What the checks found. `device_…` are figures of what is behind it, whoever uses it; `free_bytes` is
    the room below the high watermark, as told to the data plane: coarse, null = unknown."""

    state = serializers.ChoiceField(choices=choices_of(HealthState))
    message = serializers.CharField()
    checked_at = serializers.DateTimeField(allow_null=True)
    latency_ms = serializers.FloatField(allow_null=True)
    failures_in_row = serializers.IntegerField()
    successes_in_row = serializers.IntegerField()
    full = serializers.BooleanField()
    full_reason = serializers.CharField()
    over_capacity = serializers.BooleanField()
    device_used_bytes = serializers.IntegerField(allow_null=True)
    device_capacity_bytes = serializers.IntegerField(allow_null=True)
    free_bytes = serializers.IntegerField(allow_null=True)


class StorageUsageOutput(serializers.Serializer):
    used_bytes = serializers.IntegerField()
    pending_bytes = serializers.IntegerField()
    blocks = serializers.IntegerField()


class ListedOrphansOutput(serializers.Serializer):
    """Blocks whose records alone were dropped: their bytes are there and count for no group."""

    blocks = serializers.IntegerField()
    used_bytes = serializers.IntegerField()


class DepartureOutput(serializers.Serializer):
    """How a storage empties that drains or leaves. Null = not known (yet); no ETA = it does not get on."""

    kind = serializers.ChoiceField(choices=choices_of(DepartureKind))
    since = serializers.DateTimeField()
    drained_at = serializers.DateTimeField(allow_null=True, help_text="When nothing was left of it.")
    blocks_at_start = serializers.IntegerField(allow_null=True)
    bytes_at_start = serializers.IntegerField(allow_null=True)
    blocks_left = serializers.IntegerField(allow_null=True)
    bytes_left = serializers.IntegerField(allow_null=True)
    progress_ratio = serializers.FloatField(allow_null=True)
    bytes_per_second = serializers.FloatField(allow_null=True)
    eta_seconds = serializers.FloatField(allow_null=True)


class SegmentOutput(serializers.Serializer):
    """Memory of one node of a pool. `used_bytes` = what the node says, `usage` = what the index does."""

    number = serializers.IntegerField()
    node_id = serializers.CharField()
    segment_id = serializers.CharField()
    address = serializers.CharField()
    state = serializers.ChoiceField(choices=choices_of(SegmentState))
    size_bytes = serializers.IntegerField()
    used_bytes = serializers.IntegerField()
    usage = StorageUsageOutput(allow_null=True)
    found_at = serializers.DateTimeField()
    seen_at = serializers.DateTimeField()
    lost_at = serializers.DateTimeField(allow_null=True)


class StorageOutput(serializers.Serializer):
    """One storage; `usage` is null while the index does not answer."""

    name = serializers.CharField()
    number = serializers.IntegerField()
    type = serializers.ChoiceField(choices=STORAGE_TYPES)
    spec = serializers.DictField()
    enabled = serializers.BooleanField()
    draining = serializers.BooleanField()
    leaving = serializers.BooleanField(help_text="it is being removed, its blocks first")
    abandoned = serializers.BooleanField(help_text="of one that leaves: its objects are left where they are")
    departure = DepartureOutput(allow_null=True)
    check_storage_available_when_open = serializers.BooleanField()
    weight = serializers.IntegerField(allow_null=True)
    capacity_bytes = serializers.IntegerField(allow_null=True)
    high_watermark_ratio = serializers.FloatField(allow_null=True)
    low_watermark_ratio = serializers.FloatField(allow_null=True)
    maintenance_note = serializers.CharField()
    health = HealthOutput()
    usage = StorageUsageOutput(allow_null=True)
    orphans = ListedOrphansOutput(allow_null=True)
    segments = SegmentOutput(many=True)
    groups = serializers.ListField(child=serializers.CharField())
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class StorageChange(StrictSerializer):
    """A partial update: what is absent stays. `version` or If-Match guards against lost updates."""

    version = serializers.IntegerField(required=False)
    type = serializers.ChoiceField(choices=STORAGE_TYPES, required=False)
    spec = serializers.DictField(required=False)
    enabled = serializers.BooleanField(source="is_enabled", required=False)
    draining = serializers.BooleanField(source="is_draining", required=False)
    check_storage_available_when_open = serializers.BooleanField(required=False)
    weight = serializers.IntegerField(allow_null=True, required=False)
    capacity_bytes = serializers.IntegerField(allow_null=True, required=False, help_text=_CAPACITY)
    high_watermark_ratio = serializers.FloatField(allow_null=True, required=False, help_text=_HIGH)
    low_watermark_ratio = serializers.FloatField(allow_null=True, required=False, help_text=_LOW)
    maintenance_note = serializers.CharField(allow_blank=True, required=False)


class StorageInput(StorageChange):
    """A new storage."""

    version = None
    name = serializers.CharField(allow_blank=True)
    type = serializers.ChoiceField(choices=STORAGE_TYPES)
    spec = serializers.DictField()


class TrialInput(StrictSerializer):
    """A storage that is not saved. `create` = make a missing root folder, and leave it."""

    type = serializers.ChoiceField(choices=STORAGE_TYPES)
    spec = serializers.DictField()
    create = serializers.BooleanField(default=False)


class SavedTrialInput(StrictSerializer):
    """Members that the saved spec would get; none of them = as it is."""

    spec = serializers.DictField(required=False)


class SegmentSeenOutput(serializers.Serializer):
    node_id = serializers.CharField()
    segment_id = serializers.CharField()
    address = serializers.CharField()
    size_bytes = serializers.IntegerField()
    used_bytes = serializers.IntegerField()


class TrialOutput(serializers.Serializer):
    """What a probe said. `latency_ms` is null where it did not end, other figures where they are unknown."""

    ok = serializers.BooleanField(source="is_ok")
    message = serializers.CharField()
    latency_ms = serializers.FloatField(allow_null=True)
    is_full = serializers.BooleanField()
    used_bytes = serializers.IntegerField(allow_null=True)
    capacity_bytes = serializers.IntegerField(allow_null=True)
    segments = SegmentSeenOutput(many=True)


class BulkInput(StrictSerializer):
    action = serializers.ChoiceField(choices=choices_of(BulkAction))
    names = serializers.ListField(child=serializers.CharField(), max_length=100)


class ItemOutput(serializers.Serializer):
    """What became of one storage of several."""

    name = serializers.CharField()
    ok = serializers.BooleanField(source="is_ok")
    code = serializers.CharField(help_text="empty where the change was made")
    field = serializers.CharField(allow_null=True)
    message = serializers.CharField()


class BulkOutput(serializers.Serializer):
    results = ItemOutput(many=True)


class HealthChangeOutput(serializers.Serializer):
    """A turn of a storage, or of the segment of node `node_id`; is_available = the storage afterwards."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    event = serializers.ChoiceField(choices=choices_of(HealthEvent))
    node_id = serializers.CharField()
    is_available = serializers.BooleanField()
    message = serializers.CharField()
    latency_ms = serializers.FloatField(allow_null=True)


class HealthSamplesQuery(serializers.Serializer):
    """Which checks. By default those of the last hour, in sixty buckets."""

    since = serializers.DateTimeField(required=False)
    until = serializers.DateTimeField(required=False)
    bucket_seconds = serializers.IntegerField(required=False, min_value=1, max_value=86_400)


class BucketOutput(serializers.Serializer):
    """The checks of one span of time; latencies are null where none of them ended."""

    at = serializers.DateTimeField()
    checks = serializers.IntegerField()
    failures = serializers.IntegerField()
    min_ms = serializers.FloatField(allow_null=True)
    avg_ms = serializers.FloatField(allow_null=True)
    max_ms = serializers.FloatField(allow_null=True)


class HealthSamplesOutput(serializers.Serializer):
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    bucket_seconds = serializers.IntegerField()
    points = BucketOutput(many=True)


class IncidentOutput(serializers.Serializer):
    """Something that was wrong with a storage; `ended_at` null = it still is."""

    id = serializers.IntegerField()
    storage = serializers.CharField(source="storage_name")
    kind = serializers.ChoiceField(choices=choices_of(IncidentKind))
    node_id = serializers.CharField()
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    duration_seconds = serializers.SerializerMethodField()
    reason = serializers.CharField()

    def get_duration_seconds(self, incident: StorageIncident) -> float:
        return ((incident.ended_at or timezone.now()) - incident.started_at).total_seconds()
