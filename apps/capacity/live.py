"""The live topic `reclaim`: runs that are not over, the newest that are, and what stands in the way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
from django.utils import timezone

from apps.capacity.presentation import run_shown
from apps.capacity.selectors import runs_ended, runs_open
from apps.common.actor import Actor
from apps.common.redis_client import index_client
from apps.live.overview import Picture, iso
from apps.live.snapshots import SnapshotTopic
from kvcm_platform.index import reclaim_desk

OPEN_AT_MOST = 200
ENDED_AT_MOST = 50


def reclaim_picture() -> Picture:
    """Runs as lists of REST show them. Raises redis.RedisError and django.db.DatabaseError."""
    now = timezone.now()
    opened = runs_open(at_most=OPEN_AT_MOST + 1)
    picture = {
        "open": [run_shown(run, now) for run in opened[:OPEN_AT_MOST]],
        "is_complete": len(opened) <= OPEN_AT_MOST,
        "ended": [run_shown(run, now) for run in runs_ended(at_most=ENDED_AT_MOST)],
        "troubles": [
            {"instance_group": group, "since": iso(trouble.since), "reason": trouble.reason}
            for group, trouble in sorted(reclaim_desk.troubles(index_client()).items())
        ],
    }
    return orjson.loads(orjson.dumps(picture, option=orjson.OPT_UTC_Z))


def narrowed(picture: Picture, owner: Actor) -> Picture:
    """For an account limited to some groups: what is theirs."""
    visible = owner.groups
    if visible is None:
        return picture

    def mine(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        return [row for row in rows if row["instance_group"] in visible]

    return {
        **picture,
        "open": mine(picture["open"]),
        "ended": mine(picture["ended"]),
        "troubles": mine(picture["troubles"]),
    }


TOPICS = [SnapshotTopic(name="reclaim", snapshot=reclaim_picture, narrowed=narrowed)]
