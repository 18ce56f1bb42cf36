"""What is wrong with the index's servers themselves, in sentences for the verdict."""

from __future__ import annotations

import time
from collections.abc import Mapping

import redis

from kvcm_platform.index.damage import damages
from kvcm_platform.index.memory_policy import foreign_policies
from kvcm_platform.index.placed_client import PlacedClient

LOOK_SECONDS = 5.0


class IndexFaults:
    """Looked for now and then; in between what was found last."""

    def __init__(self, client: redis.Redis | PlacedClient) -> None:
        self._client = client
        self._looked_at = -LOOK_SECONDS
        self._found: tuple[str, ...] = ()

    def sentences(self, group_names: Mapping[int, str]) -> tuple[str, ...]:
        """`group_names` by number. Raises redis.RedisError."""
        if time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._found = (
                *(one.sentence(group_names) for one in foreign_policies(self._client)),
                *(one.sentence for one in damages(self._client) if one.mended_at is None),
            )
            self._looked_at = time.monotonic()
        return self._found
