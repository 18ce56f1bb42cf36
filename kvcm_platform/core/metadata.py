"""The use cases of the data plane: what MetaService does, without any transport.

Doors parse the call, call one of these, and translate.
"""

from __future__ import annotations

from .values import Values


class MetadataService(Values):
    """Queries, writes and removal over one index (DESIGN 4), for blocks and for keys with values."""
