"""Registration of an instance by an engine."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, replace
from typing import Any

import redis
from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.audit.services import audit_record
from apps.common.actor import Actor
from apps.common.redis_client import index_client
from apps.common.services import Publication, registry_publish_on_commit
from apps.instances.models import Instance, InstanceGroup, InstanceNumber
from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.registry import Entry, InstanceEntry
from kvcm_platform.core.validation.instances import Registration, check_registration
from kvcm_platform.index import keyspace
from kvcm_platform.index import registry as index_registry

_NUMBER_BITS = 48
_ATTEMPTS = 3
_IDENTITY = ("block_size", "location_spec_infos", "location_spec_groups", "model_deployment")
"""What an instance must not change, in the order of `InstanceEntry.identity`."""


class _RegisteredMeanwhile(Exception):
    """The instance appeared between the first look and the lock."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The instance as it is registered, and whether this call did it."""

    entry: InstanceEntry
    is_new: bool


def instance_register(*, acting: Actor, registration: Registration, shards: int = 1) -> Registered:
    """Register an instance, or confirm an identical registration (WIRE.md 1.5).

    When this returns the entry is in Redis. Raises INVALID_ARGUMENT, DUPLICATE where the instance is
    registered with other content, CAPACITY over the group's max_instance_count, and NOT_READY where
    Redis does not answer; a repetition then completes what the first call began.
    """
    check_registration(registration)
    acting.require_group(registration.instance_group)
    for attempt in range(_ATTEMPTS):
        try:
            return _register(acting=acting, registration=registration, shards=shards)
        except (IntegrityError, _RegisteredMeanwhile):
            # Another process registered the same instance, or drew the same number, in between.
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def _register(*, acting: Actor, registration: Registration, shards: int) -> Registered:
    stored = Instance.objects.select_related("group").filter(instance_id=registration.instance_id).first()
    if stored is not None:
        return _confirm(stored, registration)
    with transaction.atomic():
        instance, publication = _create(acting=acting, registration=registration, shards=shards)
    if publication.error:
        raise DomainError(Code.NOT_READY, f"the instance is not in the index yet: {publication.error}")
    return Registered(entry=instance.entry(), is_new=True)


def _confirm(stored: Instance, registration: Registration) -> Registered:
    entry = stored.entry()
    wanted = _wanted(registration, entry)
    if wanted.identity() != entry.identity():
        raise DomainError(
            Code.DUPLICATE,
            f"instance {entry.instance_id} is registered with other content: {_difference(entry, wanted)}",
            field="instance_id",
        )
    Instance.objects.filter(pk=stored.pk).update(last_seen_at=timezone.now())
    _require_published(entry)
    return Registered(entry=entry, is_new=False)


def _create(*, acting: Actor, registration: Registration, shards: int) -> tuple[Instance, Publication]:
    name = registration.instance_group
    # The lock makes the count below hold until this registration is committed.
    group = InstanceGroup.objects.select_for_update().filter(name=name).first()
    if group is None:
        raise invalid("instance_group", f"instance group {name} does not exist")
    if Instance.objects.filter(instance_id=registration.instance_id).exists():
        raise _RegisteredMeanwhile
    limit = group.max_instance_count
    if limit and Instance.objects.filter(group=group).count() >= limit:
        raise DomainError(
            Code.CAPACITY, f"instance group {name} has its {limit} instances (max_instance_count)"
        )
    number = secrets.randbelow((1 << _NUMBER_BITS) - 1) + 1
    InstanceNumber.objects.create(
        number=number,
        instance_id=registration.instance_id,
        group_name=name,
        group_number=group.number,
        shards=shards,
    )
    instance = Instance.objects.create(
        instance_id=registration.instance_id,
        number=number,
        group=group,
        block_size=registration.block_size,
        location_spec_infos=[asdict(info) for info in registration.location_spec_infos],
        location_spec_groups=_canonical_groups(registration),
        model_deployment=asdict(registration.model_deployment),
        model_name=registration.model_deployment.model_name,
        shards=shards,
        default_query_type=registration.default_query_type,
        last_seen_at=timezone.now(),
    )
    audit_record(
        acting=acting,
        action="instance.register",
        kind="instance",
        name=instance.instance_id,
        after={
            "group": name,
            "block_size": instance.block_size,
            "model_deployment": instance.model_deployment,
        },
    )
    return instance, registry_publish_on_commit(lambda _: [instance.entry()])


def _canonical_groups(registration: Registration) -> list[dict[str, Any]]:
    """Spec groups by name, their specs sorted: the stored form, as the reference server has it."""
    groups = sorted(registration.location_spec_groups, key=lambda group: group.name)
    return [{"name": group.name, "spec_names": sorted(group.spec_names)} for group in groups]


def _wanted(registration: Registration, stored: InstanceEntry) -> InstanceEntry:
    """The entry that this registration would make under the stored numbers."""
    return replace(stored, **{name: getattr(registration, name) for name in _IDENTITY})


def _difference(stored: InstanceEntry, wanted: InstanceEntry) -> str:
    """The members that differ, by name."""
    pairs = zip(_IDENTITY, stored.identity(), wanted.identity(), strict=True)
    return ", ".join(name for name, had, has in pairs if had != has)


def _require_published(entry: InstanceEntry) -> None:
    """See to it that the entry is in Redis; the first registration may have met a Redis that was down."""
    try:
        if _published(entry.instance_id) == entry:
            return
    except redis.RedisError as error:
        raise DomainError(Code.NOT_READY, f"the index does not answer: {error}") from error
    with transaction.atomic():
        # Read again under the lock: a removal in between must not be undone in the index.
        row = Instance.objects.select_for_update().select_related("group").filter(number=entry.number).first()
        if row is None:
            raise DomainError(
                Code.NOT_READY, f"instance {entry.instance_id} is being removed; register again"
            )
        publication = registry_publish_on_commit(lambda _: [row.entry()])
    if publication.error:
        raise DomainError(Code.NOT_READY, f"the instance is not in the index yet: {publication.error}")


def _published(instance_id: str) -> Entry | None:
    field = index_registry.field_of("instance", instance_id)
    raw = index_client().hget(keyspace.REGISTRY, field)
    return None if raw is None else index_registry.decode(field.encode(), raw)[3]
