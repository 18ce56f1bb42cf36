"""What can be subscribed, and who may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from apps.common.actor import Role

from . import feed


@dataclass(frozen=True, slots=True)
class Topic:
    role: Role
    """The least role that may subscribe."""
    feed: Callable[[], feed.Feed]


TOPICS = {feed.TOPIC: Topic(role=Role.VIEWER, feed=feed.running_feed)}


def refusal(name: str, role: Role | None) -> tuple[str, str] | None:
    """Why `role` may not subscribe to the topic, as (code, sentence); None when it may."""
    topic = TOPICS.get(name)
    if topic is None:
        return "not_found", f"There is no topic {name!r}."
    if role is None:
        return "unauthenticated", "Log in again."
    if not role.covers(topic.role):
        return "permission_denied", f"The topic {name} needs the role {topic.role}."
    return None
