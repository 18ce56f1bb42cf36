"""Instance groups, their quotas, and the instances registered in them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from apps.instances.choices import PLACEMENTS, PREFER_STRATEGIES, STORAGE_TYPES
from kvcm_platform.core.registry import InstanceEntry, instance_from_dict
from kvcm_platform.core.types import Placement

_INSTANCE_NUMBERS = 1 << 48


class InstanceGroup(models.Model):
    """One group. Its storage candidates are rows of `apps.storages`, its type quotas rows of `GroupQuota`."""

    name = models.CharField(max_length=128, unique=True)
    number = models.BigIntegerField(unique=True)
    capacity_bytes = models.BigIntegerField()
    prefer_strategy = models.CharField(max_length=32, choices=PREFER_STRATEGIES)
    reclaim = models.JSONField()
    meta_indexer = models.JSONField()
    max_instance_count = models.BigIntegerField(default=0)
    global_quota_group_name = models.CharField(max_length=256)
    user_data = models.TextField(blank=True)
    limits = models.JSONField(default=dict)
    migration = models.JSONField(null=True, default=None)
    placement = models.CharField(max_length=16, choices=PLACEMENTS, default=Placement.ORDERED.value)
    version = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(condition=Q(capacity_bytes__gte=0), name="group_capacity_is_not_negative"),
            models.CheckConstraint(
                condition=Q(max_instance_count__gte=0), name="group_limit_is_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class GroupQuota(models.Model):
    """The limit of one storage type within a group, in bytes."""

    group = models.ForeignKey(InstanceGroup, on_delete=models.CASCADE, related_name="quotas")
    storage_type = models.CharField(max_length=16, choices=STORAGE_TYPES)
    capacity_bytes = models.BigIntegerField()

    class Meta:
        ordering = ["storage_type"]
        constraints = [
            models.UniqueConstraint(fields=["group", "storage_type"], name="one_quota_per_group_and_type"),
            models.CheckConstraint(condition=Q(capacity_bytes__gte=0), name="type_quota_is_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.group_id} {self.storage_type}: {self.capacity_bytes}"


class Instance(models.Model):
    """One registered instance; `number` names its keys in Redis."""

    instance_id = models.CharField(max_length=256, unique=True)
    number = models.BigIntegerField(unique=True)
    group = models.ForeignKey(InstanceGroup, on_delete=models.PROTECT, related_name="instances")
    block_size = models.PositiveIntegerField()
    location_spec_infos = models.JSONField()
    location_spec_groups = models.JSONField()
    model_deployment = models.JSONField()
    model_name = models.CharField(max_length=4096, blank=True)
    shards = models.PositiveSmallIntegerField(default=1)
    default_query_type = models.PositiveSmallIntegerField(default=0)
    registered_at = models.DateTimeField(auto_now_add=True)
    last_seen_at = models.DateTimeField()

    class Meta:
        ordering = ["instance_id"]

    def __str__(self) -> str:
        return self.instance_id

    def entry(self) -> InstanceEntry:
        """The instance as the data plane sees it; reads `group`, so select it with the row."""
        return instance_from_dict(
            {
                "instance_id": self.instance_id,
                "number": self.number,
                "group": self.group.name,
                "group_number": self.group.number,
                "block_size": self.block_size,
                "location_spec_infos": self.location_spec_infos,
                "location_spec_groups": self.location_spec_groups,
                "model_deployment": self.model_deployment,
                "shards": self.shards,
                "default_query_type": self.default_query_type,
            }
        )


class InstanceNumber(models.Model):
    """A number that was given to an instance. The row stays after the instance, so it never returns."""

    number = models.BigIntegerField(primary_key=True)
    instance_id = models.CharField(max_length=256)
    group_name = models.CharField(max_length=128)
    group_number = models.BigIntegerField()
    shards = models.PositiveSmallIntegerField()
    registered_at = models.DateTimeField(auto_now_add=True)
    removed_at = models.DateTimeField(null=True, db_index=True)
    last_entry = models.JSONField(null=True)
    """Of a removed instance, until the index knows that its data has to go."""

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(number__gte=1, number__lt=_INSTANCE_NUMBERS), name="instance_number_has_48_bits"
            )
        ]

    def __str__(self) -> str:
        return f"{self.number:x} of {self.instance_id}"
