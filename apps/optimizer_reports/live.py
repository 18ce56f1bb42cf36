"""The live topics: `estimates` (hit rates at other capacities), and `optimizer` (traces and runs)."""

from __future__ import annotations

import orjson

from apps.common.actor import Actor
from apps.common.redis_client import index_client
from apps.live.overview import Picture
from apps.live.snapshots import SnapshotTopic
from apps.optimizer_reports.pictures import optimizer_narrowed, optimizer_picture
from apps.optimizer_reports.presentation_estimates import estimate_shown
from apps.optimizer_reports.selectors.estimates import estimate_list

SHOWN_AT_MOST = 300
_EVERYBODY = Actor.system("live")


def estimates_picture() -> Picture:
    """The rows of REST, each group followed by its instances, up to SHOWN_AT_MOST."""
    rows = estimate_list(client=index_client(), acting=_EVERYBODY)
    shown = [estimate_shown(row) for row in rows[:SHOWN_AT_MOST]]
    return orjson.loads(orjson.dumps({"rows": shown, "is_complete": len(rows) <= SHOWN_AT_MOST}))


def estimates_narrowed(picture: Picture, owner: Actor) -> Picture:
    """For an account limited to some groups: these."""
    if owner.groups is None:
        return picture
    return {**picture, "rows": [row for row in picture["rows"] if row["instance_group"] in owner.groups]}


TOPICS = [
    SnapshotTopic(
        name="estimates", snapshot=estimates_picture, narrowed=estimates_narrowed, every_seconds=2.0
    ),
    SnapshotTopic(
        name="optimizer", snapshot=optimizer_picture, narrowed=optimizer_narrowed, every_seconds=0.5
    ),
]
