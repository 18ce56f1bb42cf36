"""The live topic `storages`: health, usage, segments and departures as they are now."""

from __future__ import annotations

import orjson

from apps.common.actor import Actor
from apps.live.overview import Picture
from apps.live.snapshots import SnapshotTopic
from apps.storages.presentation import storages_shown
from apps.storages.selectors import storage_list

SHOWN_AT_MOST = 200
_EVERYBODY = Actor.system("live")
_LEFT_OUT = ("spec",)
"""Forms read it anew: it is large beside what changes by itself."""


def storages_picture() -> Picture:
    """The members of REST without the spec, by name, up to SHOWN_AT_MOST."""
    rows = list(storage_list()[: SHOWN_AT_MOST + 1])
    shown = storages_shown(rows[:SHOWN_AT_MOST], acting=_EVERYBODY)
    storages = [{name: row[name] for name in row if name not in _LEFT_OUT} for row in shown]
    is_complete = len(rows) <= SHOWN_AT_MOST
    picture = {"storages": storages, "is_complete": is_complete}
    return orjson.loads(orjson.dumps(picture, option=orjson.OPT_UTC_Z))


def narrowed(picture: Picture, owner: Actor) -> Picture:
    """For an account limited to some groups: the same storages, without the names of other groups."""
    if owner.groups is None:
        return picture
    visible = owner.groups
    storages = [
        {**storage, "groups": [name for name in storage["groups"] if name in visible]}
        for storage in picture["storages"]
    ]
    return {**picture, "storages": storages}


TOPICS = [SnapshotTopic(name="storages", snapshot=storages_picture, narrowed=narrowed)]
