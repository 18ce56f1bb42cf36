"""Which instances have their index in a metadata process instead of Redis: their usage hashes say so."""

from __future__ import annotations

from collections.abc import Sequence

from kvcm_platform.core.registry import InstanceEntry

from . import keyspace
from .connection import Commands

HOME = "home"
"""Field of the usage hash of an instance's shard 0: the node whose metadata process has the index."""
SESSIONS = "sessions"
"""Field beside it: open write sessions of the instance."""


async def away(commands: Commands, entries: Sequence[InstanceEntry]) -> frozenset[int]:
    """Numbers of those among `entries` that Redis holds nothing of but their figures."""
    homes = await commands.pipeline([("HGET", keyspace.instance(entry.number, 0), HOME) for entry in entries])
    return frozenset(entry.number for entry, home in zip(entries, homes, strict=True) if home is not None)
