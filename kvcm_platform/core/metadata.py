"""The use cases of the data plane: what MetaService does, without any transport.

Doors parse the call, call one of these, and translate.
"""

from __future__ import annotations

from .queries import Queries
from .removal import Removal
from .writes import Writes


class MetadataService(Queries, Writes, Removal):
    """Queries, writes and removal over one index (DESIGN 4)."""
