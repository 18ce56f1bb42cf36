"""This control process as its calls and duties see it."""

from __future__ import annotations

from dataclasses import dataclass, field

from apps.control.leader import Leader
from apps.control.meta_link import MetaLink
from kvcm_platform.settings.env import Env


@dataclass(slots=True)
class Node:
    """`campaign_delay_ms` is how long the node stands down after LeaderDemote."""

    env: Env
    leader: Leader
    meta: MetaLink
    campaign_delay_ms: int = field(default=10_000)
