"""Shapes of reclaim runs. Ranges and required members are checked by the services."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from apps.capacity.choices import RECLAIM_STATES, TRIGGERS
from apps.common.api.strict import StrictSerializer
from kvcm_platform.core.reclaim.runs import ReclaimRequest


class ReclaimFields(StrictSerializer):
    """What is to be reclaimed. One amount at most; without one, down to the group's low marks, or with
    `idle_seconds` everything that was not used for so long.
    """

    instance_group = serializers.CharField(required=False, allow_blank=True, default="")
    instance_id = serializers.CharField(required=False, allow_blank=True, default="")
    storage = serializers.CharField(required=False, allow_blank=True, default="")
    bytes = serializers.IntegerField(default=0)
    blocks = serializers.IntegerField(default=0)
    percent = serializers.FloatField(default=0.0, help_text="of the bytes that could be evicted there")
    idle_seconds = serializers.IntegerField(default=0)


class ReclaimInput(ReclaimFields):
    dry_run = serializers.BooleanField(default=False, help_text="say what would go, and let nothing go")


def wish_of(data: dict[str, Any]) -> ReclaimRequest:
    """The request of valid `ReclaimFields`."""
    amounts = {name: data[name] for name in ("bytes", "blocks", "percent", "idle_seconds")}
    return ReclaimRequest(
        id="",
        group=data["instance_group"],
        instance_id=data["instance_id"],
        storage=data["storage"],
        **amounts,
    )


class ScopeOutput(serializers.Serializer):
    """What is over its mark: in bytes, in keys for the scope `keys`."""

    scope = serializers.CharField()
    subject = serializers.CharField()
    used = serializers.IntegerField()
    limit = serializers.IntegerField()
    high = serializers.IntegerField()
    low = serializers.IntegerField()
    need = serializers.IntegerField()


class ReclaimRequestOutput(serializers.Serializer):
    """What somebody asked for."""

    instance_id = serializers.CharField()
    storage = serializers.CharField()
    bytes = serializers.IntegerField()
    blocks = serializers.IntegerField()
    percent = serializers.FloatField()
    idle_seconds = serializers.IntegerField()
    by = serializers.CharField()


class InstanceShareOutput(serializers.Serializer):
    """What an instance gave."""

    instance_id = serializers.CharField()
    blocks = serializers.IntegerField()
    bytes = serializers.IntegerField()


class StorageShareOutput(serializers.Serializer):
    """What lay on a storage."""

    storage = serializers.CharField()
    blocks = serializers.IntegerField()
    bytes = serializers.IntegerField()


class ReclaimRunOutput(serializers.Serializer):
    """One run. `planned_*` = what it set out to free, `chosen_*` = no longer served, `freed_*` = deleted,
    `failed_*` = their storage refuses. `used_*` are bytes written, served and reserved.
    """

    id = serializers.CharField()
    instance_group = serializers.CharField()
    trigger = serializers.ChoiceField(choices=TRIGGERS)
    state = serializers.ChoiceField(choices=RECLAIM_STATES)
    policy = serializers.CharField()
    budget = serializers.CharField()
    scopes = ScopeOutput(many=True)
    request = ReclaimRequestOutput(allow_null=True)
    asked_by = serializers.CharField()
    cancel_requested = serializers.BooleanField()
    planned_blocks = serializers.IntegerField()
    planned_bytes = serializers.IntegerField()
    chosen_blocks = serializers.IntegerField()
    chosen_bytes = serializers.IntegerField()
    freed_blocks = serializers.IntegerField()
    freed_bytes = serializers.IntegerField()
    failed_blocks = serializers.IntegerField()
    failed_bytes = serializers.IntegerField()
    capacity_bytes = serializers.IntegerField()
    used_before_bytes = serializers.IntegerField()
    used_after_bytes = serializers.IntegerField()
    oldest_use_at = serializers.DateTimeField(allow_null=True)
    newest_use_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    began_at = serializers.DateTimeField(allow_null=True)
    marked_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    duration_seconds = serializers.FloatField(allow_null=True)
    rounds = serializers.IntegerField()
    busy_seconds = serializers.FloatField()
    stop = serializers.CharField()
    detail = serializers.CharField()


class ReclaimRunDetail(ReclaimRunOutput):
    """One run with what each instance gave and where it lay, the most first."""

    by_instance = InstanceShareOutput(many=True)
    by_storage = StorageShareOutput(many=True)
