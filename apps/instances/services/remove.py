"""Removal of an instance."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from apps.audit.services import audit_record
from apps.common.actor import Actor
from apps.common.queue import enqueue_on_commit
from apps.common.services import registry_publish_on_commit
from apps.instances.models import InstanceNumber
from apps.instances.selectors import instance_get

FORGET_TASK = "apps.cache_index.tasks.forget_instance"


@transaction.atomic
def instance_remove(*, acting: Actor, instance_id: str) -> None:
    """Remove an instance: it leaves the registry at once, its blocks are deleted in the background.

    Raises INSTANCE_NOT_EXIST. Its number stays taken for ever.
    """
    instance = instance_get(acting=acting, instance_id=instance_id)
    number, shards = instance.number, instance.shards
    group_name, group_number = instance.group.name, instance.group.number
    instance.delete()
    InstanceNumber.objects.filter(number=number).update(removed_at=timezone.now())
    audit_record(
        acting=acting,
        action="instance.remove",
        kind="instance",
        name=instance_id,
        before={"group": group_name, "number": number},
    )
    registry_publish_on_commit(lambda _: [], removed=[("instance", instance_id)])
    enqueue_on_commit(
        FORGET_TASK, instance_id=instance_id, number=number, shards=shards, group_number=group_number
    )
