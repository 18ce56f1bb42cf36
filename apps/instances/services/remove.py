"""Removal of an instance."""

from __future__ import annotations

import redis
import structlog
from django.db import transaction
from django.utils import timezone

from apps.audit.services import audit_record
from apps.common.actor import Actor
from apps.common.queue import DUTIES_TASK, enqueue
from apps.common.redis_client import index_client
from apps.common.services import Publication, Removed, registry_publish_on_commit
from apps.instances.models import InstanceNumber
from apps.instances.selectors import instance_get
from kvcm_platform.core.registry import instance_from_dict, to_dict
from kvcm_platform.index import leaving

log = structlog.get_logger(__name__)


@transaction.atomic
def instance_remove(*, acting: Actor, instance_id: str) -> None:
    """Remove an instance: it leaves the registry at once, its blocks are deleted in the background.

    Raises INSTANCE_NOT_EXIST. Its number stays taken for ever.
    """
    instance = instance_get(acting=acting, instance_id=instance_id)
    entry = instance.entry()
    instance.delete()
    InstanceNumber.objects.filter(number=entry.number).update(
        removed_at=timezone.now(), last_entry=to_dict(entry)
    )
    audit_record(
        acting=acting,
        action="instance.remove",
        kind="instance",
        name=instance_id,
        before={"group": entry.group, "number": entry.number},
    )
    removed = Removed("instance", instance_id, entry.number)
    publication = registry_publish_on_commit(lambda _: [], removed=[removed])
    transaction.on_commit(lambda: _hand_over_after(publication))


def _hand_over_after(publication: Publication) -> None:
    """The data may go only once nobody is sent to it any more; control repeats what fails here."""
    if publication.error:
        return
    try:
        removed_instances_hand_over(client=index_client())
        enqueue(DUTIES_TASK)
    except redis.RedisError as error:
        log.warning("a removed instance keeps its data for now", error=str(error))


def removed_instances_hand_over(*, client: redis.Redis) -> int:
    """Put removed instances on the index's list of those whose data goes; returns how many.

    Their removal must be published already. Raises redis.RedisError; repeating is harmless.
    """
    rows = list(InstanceNumber.objects.filter(removed_at__isnull=False, last_entry__isnull=False))
    for row in rows:
        client.execute_command(*leaving.leave_command(instance_from_dict(row.last_entry)))
        InstanceNumber.objects.filter(pk=row.pk).update(last_entry=None)
    return len(rows)
