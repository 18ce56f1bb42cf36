"""The live topic `usage`: what groups and storages hold now, how that grows and when it is full."""

from __future__ import annotations

import orjson

from apps.common.actor import Actor
from apps.live.overview import Picture
from apps.live.snapshots import SnapshotTopic
from apps.usage.choices import RowKind
from apps.usage.presentation import usage_shown
from apps.usage.selectors.now import all_keys, rows_of

SHOWN_AT_MOST = 300
_EVERYBODY = Actor.system("live")


def usage_picture() -> Picture:
    """The rows of REST, groups with their types first, then storages, by name, up to SHOWN_AT_MOST."""
    keys = all_keys(acting=_EVERYBODY)
    rows = rows_of(keys[:SHOWN_AT_MOST], acting=_EVERYBODY)
    picture = {"rows": [usage_shown(row) for row in rows], "is_complete": len(keys) <= SHOWN_AT_MOST}
    return orjson.loads(orjson.dumps(picture))


def narrowed(picture: Picture, owner: Actor) -> Picture:
    """For an account limited to some groups: these, and the storages, which are everybody's."""
    if owner.groups is None:
        return picture
    rows = [row for row in picture["rows"] if row["kind"] == RowKind.STORAGE or row["name"] in owner.groups]
    return {**picture, "rows": rows}


TOPICS = [SnapshotTopic(name="usage", snapshot=usage_picture, narrowed=narrowed)]
