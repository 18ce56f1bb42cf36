"""Shapes of migrations. Ranges and required members are checked by the services."""

from __future__ import annotations

from rest_framework import serializers

from apps.common.api.strict import StrictSerializer
from apps.copies.choices import DIRECTIONS, RETENTIONS, RUN_STATES

SCOPES = [("all", "all"), ("idle", "idle")]


class MigrationInput(StrictSerializer):
    """Blocks of a group, or of one instance, that are to go from one storage to another."""

    source = serializers.CharField(allow_blank=True)
    target = serializers.CharField(allow_blank=True)
    instance_group = serializers.CharField(required=False, allow_blank=True, default="")
    instance_id = serializers.CharField(required=False, allow_blank=True, default="")
    scope = serializers.ChoiceField(
        choices=SCOPES, default="all", help_text="idle: only what was not used for idle_seconds"
    )
    idle_seconds = serializers.IntegerField(default=0)
    max_bytes = serializers.IntegerField(default=0, help_text="0 = no limit")
    max_bytes_per_second = serializers.IntegerField(default=0, help_text="0 = no limit")
    retention = serializers.ChoiceField(choices=RETENTIONS, default="delete_source")
    verify = serializers.BooleanField(default=True)
    dry_run = serializers.BooleanField(default=False, help_text="say what would move, and move nothing")


class MigrationRunOutput(serializers.Serializer):
    """One migration. `eta_seconds` is null while nothing tells; planned figures are null where unknown."""

    id = serializers.IntegerField(source="pk")
    direction = serializers.ChoiceField(choices=DIRECTIONS)
    instance_group = serializers.CharField(source="group_name")
    instance_id = serializers.CharField()
    source = serializers.CharField()
    target = serializers.CharField()
    retention = serializers.ChoiceField(choices=RETENTIONS)
    idle_seconds = serializers.IntegerField()
    max_bytes = serializers.IntegerField(source="most_bytes")
    max_bytes_per_second = serializers.IntegerField()
    verify = serializers.BooleanField(source="is_verified")
    trigger = serializers.CharField()
    state = serializers.ChoiceField(choices=RUN_STATES)
    cancel_requested = serializers.BooleanField(source="is_cancel_wanted")
    planned_blocks = serializers.IntegerField(allow_null=True)
    planned_bytes = serializers.IntegerField(allow_null=True)
    copied_blocks = serializers.IntegerField()
    copied_bytes = serializers.IntegerField()
    there_blocks = serializers.IntegerField()
    there_bytes = serializers.IntegerField()
    skipped_blocks = serializers.IntegerField()
    failed_blocks = serializers.IntegerField()
    rounds = serializers.IntegerField()
    busy_seconds = serializers.FloatField()
    eta_seconds = serializers.FloatField(allow_null=True)
    stop = serializers.CharField()
    detail = serializers.CharField()
    reasons = serializers.DictField(child=serializers.IntegerField())
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    updated_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)


class ShareOutput(serializers.Serializer):
    """How full the source is, by one measure."""

    measure = serializers.CharField()
    used_bytes = serializers.IntegerField()
    own_bytes = serializers.IntegerField()
    capacity_bytes = serializers.IntegerField()
    ratio = serializers.FloatField()


class AgeClassOutput(serializers.Serializer):
    """What was last used at least so long ago, up to the next class."""

    least_seconds = serializers.IntegerField()
    blocks = serializers.IntegerField()
    bytes = serializers.IntegerField()
    moving_blocks = serializers.IntegerField()
    moving_bytes = serializers.IntegerField()


class PreviewOutput(serializers.Serializer):
    """What would move now. `is_complete` false: there was too much to look at, figures are lower bounds."""

    obstacle = serializers.CharField()
    moving_blocks = serializers.IntegerField()
    moving_bytes = serializers.IntegerField()
    there_blocks = serializers.IntegerField()
    is_complete = serializers.BooleanField()
    shares = ShareOutput(many=True)
    ages = AgeClassOutput(many=True)
