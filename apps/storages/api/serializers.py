"""Shapes of storages. Ranges and required members are checked by `core.validation`, for every door alike."""

from __future__ import annotations

from rest_framework import serializers

from apps.common.api.strict import StrictSerializer
from apps.storages.choices import STORAGE_TYPES, HealthState

_LATER = "kept, but read by nothing yet: takes effect with the work on capacity"


class HealthOutput(serializers.Serializer):
    state = serializers.ChoiceField(choices=[(state.value, state.value) for state in HealthState])
    message = serializers.CharField()
    checked_at = serializers.DateTimeField(allow_null=True)
    latency_ms = serializers.FloatField(allow_null=True)


class StorageUsageOutput(serializers.Serializer):
    used_bytes = serializers.IntegerField()
    pending_bytes = serializers.IntegerField()
    blocks = serializers.IntegerField()


class StorageOutput(serializers.Serializer):
    """One storage; `usage` is null while the index does not answer."""

    name = serializers.CharField()
    number = serializers.IntegerField()
    type = serializers.ChoiceField(choices=STORAGE_TYPES)
    spec = serializers.DictField()
    enabled = serializers.BooleanField()
    draining = serializers.BooleanField()
    check_storage_available_when_open = serializers.BooleanField()
    weight = serializers.IntegerField(allow_null=True)
    capacity_bytes = serializers.IntegerField(allow_null=True)
    high_watermark_ratio = serializers.FloatField(allow_null=True)
    low_watermark_ratio = serializers.FloatField(allow_null=True)
    maintenance_note = serializers.CharField()
    health = HealthOutput()
    usage = StorageUsageOutput(allow_null=True)
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
    weight = serializers.IntegerField(allow_null=True, required=False, help_text=_LATER)
    capacity_bytes = serializers.IntegerField(allow_null=True, required=False, help_text=_LATER)
    high_watermark_ratio = serializers.FloatField(allow_null=True, required=False, help_text=_LATER)
    low_watermark_ratio = serializers.FloatField(allow_null=True, required=False, help_text=_LATER)
    maintenance_note = serializers.CharField(allow_blank=True, required=False)


class StorageInput(StorageChange):
    """A new storage."""

    version = None
    name = serializers.CharField(allow_blank=True)
    type = serializers.ChoiceField(choices=STORAGE_TYPES)
    spec = serializers.DictField()


class HealthChangeOutput(serializers.Serializer):
    """A turn of a storage's health."""

    at = serializers.DateTimeField()
    is_available = serializers.BooleanField()
    message = serializers.CharField()
    latency_ms = serializers.FloatField(allow_null=True)
