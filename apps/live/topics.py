"""What can be subscribed, and who may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from apps.common.actor import Actor, Role

from . import feed


@dataclass(frozen=True, slots=True)
class Topic:
    role: Role
    """The least role that may subscribe."""
    feed: Callable[[], feed.Feed]
    is_of_all_groups: bool
    """Whether it shows sums over every instance group, which is not for accounts limited to some."""


TOPICS = {feed.TOPIC: Topic(role=Role.VIEWER, feed=feed.running_feed, is_of_all_groups=True)}


def refusal(name: str, owner: Actor | None) -> tuple[str, str] | None:
    """Why a socket's owner may not subscribe to the topic, as (code, sentence); None when it may."""
    topic = TOPICS.get(name)
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
