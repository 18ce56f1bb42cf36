"""What can be subscribed, and who may: the overview, and what apps declare in their `live.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from django.apps import apps

from apps.common.actor import Actor, Role

from . import feed
from .overview import Picture
from .snapshots import SnapshotTopic, snapshot_feed


class Feed(Protocol):
    """Numbered pictures, sent to a Channels group. Whoever subscribes counts itself in and out."""

    group: str
    subscribers: int

    async def snapshot(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Topic:
    """`narrowed` gives of a picture what an account may see; None = all of it for whoever may subscribe."""

    role: Role
    """The least role that may subscribe."""
    feed: Callable[[], Feed]
    is_of_all_groups: bool
    """Whether it shows sums over every instance group, which is not for accounts limited to some."""
    narrowed: Callable[[Picture, Actor], Picture] | None = None

    def shown(self, message: dict[str, Any], owner: Actor) -> dict[str, Any]:
        """The message as the owner of a socket may see it."""
        return (
            message if self.narrowed is None else {**message, "data": self.narrowed(message["data"], owner)}
        )


@lru_cache(maxsize=1)
def topics() -> Mapping[str, Topic]:
    """Every topic by name."""
    overview = Topic(role=Role.VIEWER, feed=feed.running_feed, is_of_all_groups=True)
    return {feed.TOPIC: overview, **{topic.name: _of_app(topic) for topic in _declared()}}


def _declared() -> list[SnapshotTopic]:
    found = []
    for config in apps.get_app_configs():
        module = f"{config.name}.live"
        if config.name.startswith("apps.") and find_spec(module):
            found += import_module(module).TOPICS
    return found


def _of_app(topic: SnapshotTopic) -> Topic:
    feed_of = partial(snapshot_feed, topic)
    return Topic(role=topic.role, feed=feed_of, is_of_all_groups=False, narrowed=topic.narrowed)


def refusal(name: str, owner: Actor | None) -> tuple[str, str] | None:
    """Why a socket's owner may not subscribe to the topic, as (code, sentence); None when it may."""
    topic = topics().get(name)
    if topic is None:
        return "not_found", f"There is no topic {name!r}."
    if owner is None:
        return "unauthenticated", "Log in again."
    if not owner.role.covers(topic.role):
        return "permission_denied", f"The topic {name} needs the role {topic.role}."
    if topic.is_of_all_groups and owner.groups is not None:
        sentence = f"The topic {name} is about every instance group; {owner.name} is limited to some."
        return "permission_denied", sentence
    return None
