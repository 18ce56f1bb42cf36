"""Tells once, in the log and among the events, when a server of the index may drop keys by itself."""

from __future__ import annotations

import json

import structlog
from django.utils import timezone

from apps.audit.services import event_record
from apps.common.conditions import Severity
from apps.instances.selectors import group_entries
from kvcm_platform.index import keyspace
from kvcm_platform.index.memory_policy import foreign_policies
from kvcm_platform.index.placed_client import PlacedClient

log = structlog.get_logger(__name__)


def memory_policies_note(*, client: PlacedClient) -> list[str]:
    """Sentences about what changed since the last look, whoever looked. Raises redis.RedisError."""
    names = {entry.number: entry.name for entry in group_entries()}
    now = {one.sentence(names): one.groups for one in foreign_policies(client)}
    known = _known(client)
    if set(now) == known:
        return []
    client.main.set(keyspace.MEMORY_POLICIES, json.dumps(sorted(now)))
    news = sorted(set(now) - known)
    for sentence in news:
        log.warning("a server of the index may drop keys", what=sentence)
        event_record(
            at=timezone.now(),
            kind="index.memory_policy",
            severity=Severity.WARNING,
            subject_kind="platform",
            subject="index",
            message=sentence,
            groups=[names[number] for number in now[sentence] if number in names] or None,
        )
    return news


def _known(client: PlacedClient) -> set[str]:
    raw = client.main.get(keyspace.MEMORY_POLICIES)
    return set(json.loads(raw)) if raw else set()
