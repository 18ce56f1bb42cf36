"""Makes the connection that a Redis URL asks for."""

from __future__ import annotations

from . import address
from .cluster import ClusterConnection
from .connection import Connection
from .sentinel import SentinelConnection
from .single import SingleConnection

_CLASSES: dict[str, type[SingleConnection] | type[ClusterConnection]] = {
    "single": SingleConnection,
    "cluster": ClusterConnection,
    "sentinel": SentinelConnection,
}


def connection_to(url: str) -> Connection:
    """Not connected yet. Raises address.BadAddress."""
    where = address.parse(url)
    return _CLASSES[where.kind](where)
