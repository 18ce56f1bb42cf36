"""Reads of groups and instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from django.db.models import Count, F, QuerySet

from apps.common.actor import Actor
from apps.instances.models import GroupQuota, Instance, InstanceGroup
from apps.storages.selectors import candidates_of
from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.registry import GroupEntry, InstanceEntry, group_from_dict
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.validation.groups import GroupSettings


@dataclass(frozen=True, slots=True)
class GroupDetail:
    """A group with what lies in other tables. `row` carries `instance_count` where it was listed."""

    row: InstanceGroup
    entry: GroupEntry

    @property
    def settings(self) -> GroupSettings:
        return settings_of(self.entry)


def settings_of(entry: GroupEntry) -> GroupSettings:
    """What operators set, out of an entry."""
    return GroupSettings(**{member.name: getattr(entry, member.name) for member in fields(GroupSettings)})


def group_list(*, acting: Actor) -> QuerySet[InstanceGroup]:
    """The groups that `acting` may see, each with its `instance_count`."""
    groups = InstanceGroup.objects.annotate(instance_count=Count("instances")).order_by("name")
    return groups if acting.groups is None else groups.filter(name__in=acting.groups)


def group_details(rows: Sequence[InstanceGroup]) -> list[GroupDetail]:
    """Rows with their quotas and candidates: two queries, however many rows."""
    quotas: dict[int, dict[str, int]] = {row.pk: {} for row in rows}
    found = GroupQuota.objects.filter(group__in=list(quotas)).order_by("storage_type")
    for group_id, kind, capacity in found.values_list("group_id", "storage_type", "capacity_bytes"):
        quotas[group_id][kind] = capacity
    candidates = candidates_of([row.name for row in rows])
    return [GroupDetail(row, _entry(row, quotas[row.pk], candidates[row.name])) for row in rows]


def _entry(row: InstanceGroup, per_type: dict[str, int], candidates: tuple[str, ...]) -> GroupEntry:
    return group_from_dict(
        {
            "name": row.name,
            "number": row.number,
            "storage_candidates": candidates,
            "quota": {"capacity_bytes": row.capacity_bytes, "per_type": per_type},
            "prefer_strategy": row.prefer_strategy,
            "reclaim": row.reclaim,
            "meta_indexer": row.meta_indexer,
            "max_instance_count": row.max_instance_count,
            "global_quota_group_name": row.global_quota_group_name,
            "user_data": row.user_data,
            "limits": row.limits,
            "migration": row.migration,
            "placement": row.placement,
            "version": row.version,
        }
    )


def group_get(*, acting: Actor, name: str, field: str = "name") -> GroupDetail:
    """Raises NOT_FOUND, also for a group outside the actor's scope; `field` is the member that named it."""
    row = group_list(acting=acting).filter(name=name).first()
    if row is None:
        raise DomainError(Code.NOT_FOUND, f"instance group {name} does not exist", field=field)
    return group_details([row])[0]


def group_entries() -> list[GroupEntry]:
    """All groups as the data plane sees them."""
    return [detail.entry for detail in group_details(list(InstanceGroup.objects.order_by("name")))]


def limit_keys(*, acting: Actor) -> list[tuple[str, StorageType | None]]:
    """Each group that `acting` may see: None for its limit as a whole, then its limited types; by name."""
    groups = group_list(acting=acting).values_list("name", flat=True)
    limited = GroupQuota.objects.order_by("storage_type").values_list("group__name", "storage_type")
    types: dict[str, list[StorageType]] = {}
    for name, kind in limited:
        types.setdefault(name, []).append(StorageType(kind))
    return [(name, kind) for name in groups for kind in (None, *types.get(name, ()))]


def group_names() -> set[str]:
    return set(InstanceGroup.objects.values_list("name", flat=True))


def groups_migrate() -> bool:
    """Whether some group has a migration policy that is on."""
    policies = InstanceGroup.objects.filter(migration__isnull=False).values_list("migration", flat=True)
    return any(policy["is_enabled"] for policy in policies)


def instance_list(*, acting: Actor) -> QuerySet[Instance]:
    """The instances that `acting` may see, their group loaded and its name as `instance_group`."""
    instances = Instance.objects.select_related("group").annotate(instance_group=F("group__name"))
    instances = instances.order_by("instance_id")
    return instances if acting.groups is None else instances.filter(group__name__in=acting.groups)


def instance_get(*, acting: Actor, instance_id: str) -> Instance:
    """Raises INSTANCE_NOT_EXIST, also for an instance outside the actor's scope."""
    instance = instance_list(acting=acting).filter(instance_id=instance_id).first()
    if instance is None:
        raise DomainError(
            Code.INSTANCE_NOT_EXIST, f"instance {instance_id} is not registered", field="instance_id"
        )
    return instance


def instance_ids_by_group(groups: Sequence[InstanceGroup]) -> dict[int, list[str]]:
    """The ids of each group's instances, by the group's row; one query."""
    found: dict[int, list[str]] = {group.pk: [] for group in groups}
    rows = Instance.objects.filter(group__in=list(found)).order_by("instance_id")
    for group_id, instance_id in rows.values_list("group_id", "instance_id"):
        found[group_id].append(instance_id)
    return found


def instance_entries() -> list[InstanceEntry]:
    """All instances as the data plane sees them."""
    rows = Instance.objects.select_related("group").order_by("instance_id")
    return [instance.entry() for instance in rows]


def group_meant(*, acting: Actor, group: str, instance_id: str) -> str:
    """The group of a request that names it, or one of its instances, or both.

    Raises NOT_FOUND, INSTANCE_NOT_EXIST, INVALID_ARGUMENT.
    """
    if instance_id:
        own = instance_get(acting=acting, instance_id=instance_id).group.name
        if group not in ("", own):
            raise invalid("instance_group", f"instance {instance_id} is not of group {group}")
        group = own
    elif not group:
        raise invalid("instance_group", "an instance group or an instance is required")
    group_get(acting=acting, name=group)
    return group
