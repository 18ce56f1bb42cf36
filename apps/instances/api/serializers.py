"""Shapes of groups and instances. Ranges and required members are checked by `core.validation`."""

from __future__ import annotations

from rest_framework import serializers

from apps.instances.api.reclaim import ReclaimFields, ReclaimOutput
from apps.instances.choices import PLACEMENTS, PREFER_STRATEGIES, RETENTIONS

_LATER = "kept, but read by nothing yet: takes effect with the work on the index"


class BytesByTypeField(serializers.DictField):
    """Bytes by storage type."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(child=serializers.IntegerField(), **kwargs)


class QuotaFields(serializers.Serializer):
    capacity_bytes = serializers.IntegerField()
    per_type = BytesByTypeField(required=False)


class QuotaChange(QuotaFields):
    capacity_bytes = serializers.IntegerField(required=False)


class CachePolicyFields(serializers.Serializer):
    capacity_mb = serializers.IntegerField(required=False)
    type = serializers.CharField(allow_blank=True, required=False)
    shard_bits = serializers.IntegerField(required=False)
    high_pri_pool_ratio = serializers.FloatField(required=False)


class MetaIndexerFields(serializers.Serializer):
    max_key_count = serializers.IntegerField(required=False)
    mutex_shard_num = serializers.IntegerField(required=False, help_text=_LATER)
    batch_key_size = serializers.IntegerField(required=False, help_text=_LATER)
    storage_type = serializers.CharField(allow_blank=True, required=False)
    storage_uri = serializers.CharField(
        allow_blank=True,
        required=False,
        help_text="a Redis URL places the group there, fixed at its creation",
    )
    cache_policy = CachePolicyFields(required=False)


class LimitsFields(serializers.Serializer):
    """What keeps a group from starving the others; 0 or null = no limit."""

    calls_per_second = serializers.IntegerField(
        allow_null=True, required=False, help_text="queries and Starts"
    )
    blocks_per_second = serializers.IntegerField(
        allow_null=True, required=False, help_text="blocks that queries and Starts name"
    )
    write_session_ratio = serializers.FloatField(
        allow_null=True,
        required=False,
        help_text="open write sessions of the group's instances together, as a share of KVCM_MAX_SESSIONS",
    )


class MigrationFields(serializers.Serializer):
    """When cold blocks leave a storage for another, and when they come back; null = no policy."""

    source = serializers.CharField(required=False, help_text="storage that blocks leave")
    target = serializers.CharField(required=False, help_text="storage that takes them")
    trigger_ratio = serializers.FloatField(
        required=False, help_text="used share of the source's type quota or capacity from which on they leave"
    )
    low_ratio = serializers.FloatField(required=False, help_text="share at which a round ends")
    retention = serializers.ChoiceField(choices=RETENTIONS, required=False)
    promote_after_hits = serializers.IntegerField(
        required=False, help_text="recent uses after which blocks come back to the source; 0 = never"
    )
    max_bytes_per_second = serializers.IntegerField(required=False, help_text="0 = no limit")
    verify = serializers.BooleanField(
        required=False, help_text="whether each copy is read back and compared before it is served"
    )
    enabled = serializers.BooleanField(required=False)


class MigrationOutput(serializers.Serializer):
    source = serializers.CharField()
    target = serializers.CharField()
    trigger_ratio = serializers.FloatField()
    low_ratio = serializers.FloatField()
    retention = serializers.ChoiceField(choices=RETENTIONS)
    promote_after_hits = serializers.IntegerField()
    max_bytes_per_second = serializers.IntegerField()
    verify = serializers.BooleanField()
    enabled = serializers.BooleanField()


class _GroupFields(serializers.Serializer):
    prefer_strategy = serializers.ChoiceField(choices=PREFER_STRATEGIES, required=False)
    placement = serializers.ChoiceField(
        choices=PLACEMENTS,
        required=False,
        help_text="ordered: the first usable candidate; balanced: at random by weight times free space",
    )
    reclaim = ReclaimFields(required=False)
    max_instance_count = serializers.IntegerField(required=False)
    meta_indexer = MetaIndexerFields(required=False)
    limits = LimitsFields(required=False)
    migration = MigrationFields(required=False, allow_null=True)
    global_quota_group_name = serializers.CharField(allow_blank=True, required=False)
    user_data = serializers.CharField(allow_blank=True, trim_whitespace=False, required=False)


class GroupInput(_GroupFields):
    """A new group; what is absent gets its default."""

    name = serializers.CharField(allow_blank=True)
    storage_candidates = serializers.ListField(child=serializers.CharField(allow_blank=True))
    quota = QuotaFields()


class GroupChange(_GroupFields):
    """A partial update, also inside the members; `quota.per_type` is replaced as a whole."""

    version = serializers.IntegerField(required=False)
    storage_candidates = serializers.ListField(child=serializers.CharField(allow_blank=True), required=False)
    quota = QuotaChange(required=False)


class QuotaOutput(serializers.Serializer):
    capacity_bytes = serializers.IntegerField()
    per_type = BytesByTypeField()


class CachePolicyOutput(serializers.Serializer):
    capacity_mb = serializers.IntegerField()
    type = serializers.CharField()
    shard_bits = serializers.IntegerField()
    high_pri_pool_ratio = serializers.FloatField()


class MetaIndexerOutput(serializers.Serializer):
    max_key_count = serializers.IntegerField()
    mutex_shard_num = serializers.IntegerField()
    batch_key_size = serializers.IntegerField()
    storage_type = serializers.CharField()
    storage_uri = serializers.CharField()
    cache_policy = CachePolicyOutput()


class LimitsOutput(serializers.Serializer):
    """0 = no limit."""

    calls_per_second = serializers.IntegerField()
    blocks_per_second = serializers.IntegerField()
    write_session_ratio = serializers.FloatField()


class AdmissionOutput(serializers.Serializer):
    """What the limits allowed and refused, counted while there are any."""

    allowed_calls = serializers.IntegerField()
    allowed_blocks = serializers.IntegerField()
    refused_calls = serializers.IntegerField()
    refused_blocks = serializers.IntegerField()
    refused_sessions = serializers.IntegerField()


class GroupUsageOutput(serializers.Serializer):
    used_bytes = serializers.IntegerField()
    reserved_bytes = serializers.IntegerField()
    pending_bytes = serializers.IntegerField()
    blocks = serializers.IntegerField()
    per_type = BytesByTypeField()


class GroupTrafficOutput(serializers.Serializer):
    """Totals of the group's instances; `hit_rate` is null while nothing was requested."""

    requested_blocks = serializers.IntegerField()
    hit_blocks = serializers.IntegerField()
    write_refused = serializers.IntegerField(help_text="Starts that got no place")
    quota_refused = serializers.IntegerField(help_text="those of them that a quota or max_key_count refused")
    hit_rate = serializers.FloatField(allow_null=True)


class GroupOutput(serializers.Serializer):
    """One instance group; `usage`, `traffic` and `admission` are null while the index does not answer."""

    name = serializers.CharField()
    storage_candidates = serializers.ListField(child=serializers.CharField())
    prefer_strategy = serializers.ChoiceField(choices=PREFER_STRATEGIES)
    placement = serializers.ChoiceField(choices=PLACEMENTS)
    quota = QuotaOutput()
    reclaim = ReclaimOutput()
    max_instance_count = serializers.IntegerField()
    meta_indexer = MetaIndexerOutput()
    limits = LimitsOutput()
    migration = MigrationOutput(allow_null=True)
    global_quota_group_name = serializers.CharField()
    user_data = serializers.CharField()
    version = serializers.IntegerField()
    instance_count = serializers.IntegerField()
    usage = GroupUsageOutput(allow_null=True)
    traffic = GroupTrafficOutput(allow_null=True)
    admission = AdmissionOutput(allow_null=True)
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class LocationSpecInfoOutput(serializers.Serializer):
    name = serializers.CharField()
    size = serializers.IntegerField()


class LocationSpecGroupOutput(serializers.Serializer):
    name = serializers.CharField()
    spec_names = serializers.ListField(child=serializers.CharField())


class ModelDeploymentOutput(serializers.Serializer):
    model_name = serializers.CharField()
    dtype = serializers.CharField()
    use_mla = serializers.BooleanField()
    tp_size = serializers.IntegerField()
    dp_size = serializers.IntegerField()
    lora_name = serializers.CharField()
    pp_size = serializers.IntegerField()
    extra = serializers.CharField()
    user_data = serializers.CharField()
    use_eagle_pop = serializers.BooleanField()


class InstanceUsageOutput(serializers.Serializer):
    used_bytes = serializers.IntegerField()
    pending_bytes = serializers.IntegerField()
    blocks = serializers.IntegerField()
    writing_blocks = serializers.IntegerField()


class InstanceTrafficOutput(serializers.Serializer):
    """Totals since the instance was first seen."""

    requests = serializers.IntegerField()
    requested_blocks = serializers.IntegerField()
    hit_blocks = serializers.IntegerField()
    hit_rate = serializers.FloatField(allow_null=True)
    written_blocks = serializers.IntegerField()
    write_refused = serializers.IntegerField(help_text="Starts that got no place")
    quota_refused = serializers.IntegerField(help_text="those of them that a quota or max_key_count refused")


class InstanceOutput(serializers.Serializer):
    """One instance; what comes from the index is null while it does not answer."""

    instance_id = serializers.CharField()
    instance_group = serializers.CharField()
    number = serializers.IntegerField()
    block_size = serializers.IntegerField()
    shards = serializers.IntegerField()
    default_query_type = serializers.IntegerField()
    location_spec_infos = LocationSpecInfoOutput(many=True)
    location_spec_groups = LocationSpecGroupOutput(many=True)
    model_deployment = ModelDeploymentOutput()
    usage = InstanceUsageOutput(allow_null=True)
    open_write_sessions = serializers.IntegerField(allow_null=True)
    traffic = InstanceTrafficOutput(allow_null=True)
    registered_at = serializers.DateTimeField()
    last_seen_at = serializers.DateTimeField()
