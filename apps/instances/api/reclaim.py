"""Shapes of a group's settings of reclaim."""

from __future__ import annotations

from rest_framework import serializers

from apps.instances.choices import RECLAIM_BUDGETS, RECLAIM_POLICIES


class ReclaimFields(serializers.Serializer):
    """When the group gives blocks back, and which. 0, "" or null = unset."""

    policy = serializers.ChoiceField(
        choices=RECLAIM_POLICIES,
        required=False,
        help_text="lru: longest unused first; lfu: least used first; ttl: as lru, and besides what was unused"
        " for ttl_seconds goes without any mark",
    )
    storage_unique_name = serializers.CharField(
        allow_blank=True, required=False, help_text="storage to take from first; a preference, never a filter"
    )
    used_ratio = serializers.FloatField(
        required=False,
        help_text="high mark as a share of the quota, of each type's, and of max_key_count; above 1 = never",
    )
    used_bytes = serializers.IntegerField(
        required=False, help_text="high mark of the group in bytes; counts where used_ratio is 0"
    )
    low_watermark_ratio = serializers.FloatField(
        allow_null=True,
        required=False,
        help_text="share at which a run ends; null = five points below the high mark, or a tenth of it"
        " if less (95 % of used_bytes)",
    )
    trigger_period_seconds = serializers.IntegerField(
        required=False, help_text="least time between two runs that marks set off"
    )
    step_size = serializers.IntegerField(required=False, help_text="blocks that a run takes in one step")
    step_percentage = serializers.IntegerField(
        required=False, help_text="the same in per cent of what could be evicted; counts where step_size is 0"
    )
    delay_before_delete_ms = serializers.IntegerField(
        required=False, help_text="how long readers that have a location may go on reading it"
    )
    grace_seconds = serializers.IntegerField(
        required=False, help_text="blocks finished less than that long ago stay"
    )
    ttl_seconds = serializers.IntegerField(
        required=False, help_text="policy ttl: blocks unused for so long go; 0 = only under pressure"
    )
    budget = serializers.ChoiceField(
        choices=RECLAIM_BUDGETS,
        required=False,
        help_text="what each instance gives: group_lru: whoever has the next in order; usage_proportional:"
        " the same share of what it could give; fixed: equal amounts",
    )


class ReclaimOutput(serializers.Serializer):
    policy = serializers.ChoiceField(choices=RECLAIM_POLICIES)
    storage_unique_name = serializers.CharField()
    used_ratio = serializers.FloatField()
    used_bytes = serializers.IntegerField()
    low_watermark_ratio = serializers.FloatField(allow_null=True)
    trigger_period_seconds = serializers.IntegerField()
    step_size = serializers.IntegerField()
    step_percentage = serializers.IntegerField()
    delay_before_delete_ms = serializers.IntegerField()
    grace_seconds = serializers.IntegerField()
    ttl_seconds = serializers.IntegerField()
    budget = serializers.ChoiceField(choices=RECLAIM_BUDGETS)
