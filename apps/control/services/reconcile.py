"""Keeps Redis equal to the database where a publication was missed."""

from __future__ import annotations

from datetime import timedelta

import redis
import structlog
from django.db import transaction
from django.utils import timezone

from apps.accounts.publication import tokens_reconcile
from apps.audit.services import event_record
from apps.common.selectors import pending_publications, registry_version
from apps.common.services import Removed, publications_settle, registry_version_lift, removals_note
from apps.instances.selectors import group_entries, instance_entries
from apps.instances.services import removed_instances_hand_over
from apps.storages.selectors import storage_entries
from kvcm_platform.core.registry import Entry, InstanceEntry
from kvcm_platform.index import keyspace
from kvcm_platform.index import registry as index_registry
from kvcm_platform.index.placed import own_url

log = structlog.get_logger(__name__)

_IN_FLIGHT = timedelta(seconds=2)
"""A publication younger than this is being sent by whoever committed it."""
_AT_ONCE = 200


def reconcile(*, client: redis.Redis) -> bool:
    """One comparison; returns whether everything was published again. Raises redis.RedisError."""
    missed = pending_publications(before=timezone.now() - _IN_FLIGHT)
    published, stored = index_registry.read_version(client), registry_version()
    is_behind = published is None or published < stored
    needs_all = bool(missed) or (published or 0) > stored or (is_behind and not _is_being_sent())
    needs_all = needs_all or (not is_behind and _is_lost(client))
    if needs_all:
        _publish_all(client, published or 0)
        event_record(
            at=timezone.now(),
            kind="registry.republished",
            subject_kind="platform",
            subject="control",
            message="The index missed or lost changes: all storages, groups and instances were published.",
        )
        publications_settle(versions=missed)
    tokens_reconcile(client=client)
    elsewhere = [group for group in group_entries() if own_url(group.meta_indexer)]
    index_registry.set_limits(client, elsewhere, stored)
    # After the registry: the data of a removed instance goes only once nobody is sent to it.
    if not pending_publications(before=timezone.now()):
        removed_instances_hand_over(client=client)
    return needs_all


def limits_publish(*, client: redis.Redis) -> None:
    """Set the limits of all groups as this version understands them. Raises redis.RedisError."""
    # In this order: a change that comes in between has a higher version, and wins.
    version = registry_version()
    index_registry.set_limits(client, group_entries(), version)


def _is_lost(client: redis.Redis) -> bool:
    """Whether the server dropped the registry by itself and kept its version."""
    return not client.exists(keyspace.REGISTRY) and bool(group_entries() or storage_entries())


def _is_being_sent() -> bool:
    """Whether a publication is on its way, so that Redis may well be behind for a moment."""
    return bool(pending_publications(before=timezone.now()))


def _publish_all(client: redis.Redis, published: int) -> None:
    with transaction.atomic():
        # Raised, so that this publication wins over whatever the index holds of an earlier life.
        version = registry_version_lift(above=published + 1)
        entries: list[Entry] = [*storage_entries(), *group_entries(), *instance_entries()]
    present = {(index_registry.KIND[type(entry)], _name(entry)) for entry in entries}
    known = index_registry.read(client)
    listed: list[Entry] = [*known.storages.values(), *known.groups.values(), *known.instances.values()]
    gone = [
        Removed(index_registry.KIND[type(entry)], _name(entry), entry.number)
        for entry in listed
        if (index_registry.KIND[type(entry)], _name(entry)) not in present
    ]
    removals_note(version=version, removed=gone)
    # In pieces, so that the index serves in between; it shows the new version with the last one, so
    # that an interrupted publication is begun again.
    for at in range(0, len(entries), _AT_ONCE):
        index_registry.publish(client, version=version - 1, changed=entries[at : at + _AT_ONCE])
    index_registry.publish(client, version=version, removed=[(each.kind, each.name) for each in gone])
    log.info("registry published as a whole", version=version, entries=len(entries))


def _name(entry: Entry) -> str:
    return entry.instance_id if isinstance(entry, InstanceEntry) else entry.name
