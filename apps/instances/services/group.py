"""Create, change and remove instance groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import structlog
from django.db import transaction

from apps.audit.services import audit_record
from apps.common.actor import Actor
from apps.common.services import Removed, number_next, registry_publish_on_commit, wake_on_commit
from apps.instances.models import GroupQuota, InstanceGroup
from apps.instances.selectors import GroupDetail, group_details, group_get
from apps.storages.selectors import storage_names
from apps.storages.services import candidates_set
from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.validation.groups import GroupSettings, check_group, group_warnings
from kvcm_platform.core.validation.values import INT64, check_object_name
from kvcm_platform.core.validation.versions import next_version, require_version
from kvcm_platform.index import address
from kvcm_platform.index.placed import own_url
from kvcm_platform.index.waking import Wake

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GroupChanged:
    """The group as it is now, and what was accepted but is probably not meant."""

    detail: GroupDetail
    warnings: list[str]


@transaction.atomic
def group_create(*, acting: Actor, name: str, settings: GroupSettings, version: int = 1) -> GroupChanged:
    """Create a group. Raises INVALID_ARGUMENT, and DUPLICATE for a taken name."""
    acting.require_group(name)
    check_object_name(name)
    settings = check_group(settings)
    _check_place(settings)
    if InstanceGroup.objects.filter(name=name).exists():
        raise DomainError(Code.DUPLICATE, f"instance group {name} exists", field="name")
    row = InstanceGroup(name=name, number=number_next(kind="group", at_most=INT64), version=max(1, version))
    return _write(acting=acting, row=row, settings=settings, action="group.create", before=None)


@transaction.atomic
def group_update(
    *,
    acting: Actor,
    name: str,
    change: Callable[[GroupSettings], GroupSettings],
    expected_version: int | None = None,
    new_version: int | None = None,
) -> GroupChanged:
    """Change a group under its row lock; `change` makes the new settings out of the stored ones.

    Raises NOT_FOUND, INVALID_ARGUMENT, and CONFLICT where the stored version is not `expected_version`.
    """
    row = _locked(acting, name)
    detail = group_details([row])[0]
    require_version(stored=row.version, given=expected_version)
    settings = check_group(change(detail.settings))
    if own_url(settings.meta_indexer) != own_url(detail.settings.meta_indexer):
        raise invalid("meta_indexer.storage_uri", "where the index of a group lies is fixed at its creation")
    row.version = next_version(stored=row.version, given=new_version)
    changed = _write(
        acting=acting, row=row, settings=settings, action="group.update", before=_state(detail.settings)
    )
    if _limits_of(settings) != _limits_of(detail.settings):
        wake_on_commit(Wake.LIMITS, group=name)
    return changed


@transaction.atomic
def group_remove(*, acting: Actor, name: str) -> None:
    """Remove a group. Raises NOT_FOUND, and IN_USE while instances are registered in it.

    Blocks of instances already removed may still be on their way out.
    """
    row = _locked(acting, name)
    count = row.instances.count()
    if count:
        raise DomainError(
            Code.IN_USE, f"instance group {name} has {count} registered instances; remove them first"
        )
    before = _state(group_details([row])[0].settings)
    row.delete()
    candidates_set(group_name=name, storage_names=())
    audit_record(acting=acting, action="group.remove", kind="instance_group", name=name, before=before)
    registry_publish_on_commit(lambda _: [], removed=[Removed("group", name, row.number)])


def _check_place(settings: GroupSettings) -> None:
    try:
        url = own_url(settings.meta_indexer)
        if url:
            address.parse(url)
    except address.BadAddress as error:
        raise invalid("meta_indexer.storage_uri", str(error)) from error


def _locked(acting: Actor, name: str) -> InstanceGroup:
    group_get(acting=acting, name=name)
    return InstanceGroup.objects.select_for_update().get(name=name)


def _write(
    *, acting: Actor, row: InstanceGroup, settings: GroupSettings, action: str, before: dict[str, Any] | None
) -> GroupChanged:
    row.capacity_bytes = settings.quota.capacity_bytes
    row.prefer_strategy = settings.prefer_strategy.value
    row.reclaim = asdict(settings.reclaim)
    row.meta_indexer = asdict(settings.meta_indexer)
    row.max_instance_count = settings.max_instance_count
    row.global_quota_group_name = settings.global_quota_group_name
    row.user_data = settings.user_data
    row.limits = asdict(settings.limits)
    row.migration = None if settings.migration is None else asdict(settings.migration)
    row.placement = settings.placement.value
    row.save()
    GroupQuota.objects.filter(group=row).delete()
    GroupQuota.objects.bulk_create(
        GroupQuota(group=row, storage_type=kind.value, capacity_bytes=capacity)
        for kind, capacity in settings.quota.per_type.items()
    )
    candidates_set(group_name=row.name, storage_names=settings.storage_candidates)
    detail = group_details([row])[0]
    warnings = group_warnings(settings, storage_names())
    for warning in warnings:
        log.warning("accepted with a warning", group=row.name, warning=warning)
    audit_record(
        acting=acting,
        action=action,
        kind="instance_group",
        name=row.name,
        before=before,
        after=_state(detail.settings),
    )
    registry_publish_on_commit(lambda _: [detail.entry])
    return GroupChanged(detail=detail, warnings=warnings)


def _limits_of(settings: GroupSettings) -> tuple[Any, ...]:
    """What decides how much a group may hold, and when and how it gives blocks back."""
    return settings.quota, settings.reclaim, settings.meta_indexer.max_key_count


def _state(settings: GroupSettings) -> dict[str, Any]:
    return asdict(settings)
