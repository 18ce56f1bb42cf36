"""Reads the stream of facts on from a position, each entry once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import redis
import structlog

from kvcm_platform.index import keyspace, streams

log = structlog.get_logger(__name__)
_ENTRIES_A_READ = 1000
_READS_AT_MOST = 25
"""The stream holds 20,000 entries; what comes meanwhile waits for the next look."""


class FactsTail:
    """Reads on from `position`, the id of an entry that was read already."""

    def __init__(self, position: str) -> None:
        self._read_id = position

    def entries(self, client: redis.Redis) -> Iterator[tuple[str, Mapping[bytes, bytes]]]:
        """Ids and fields (`facts.decode`) of what is new, at most 25,000 at a time.

        An entry counts as read when the next one is asked for. Raises redis.RedisError.
        """
        for _ in range(_READS_AT_MOST):
            entries = client.xrange(keyspace.FACTS, min=f"({self._read_id}", count=_ENTRIES_A_READ)
            for raw_id, fields in entries:
                entry_id = raw_id.decode()
                yield entry_id, fields
                self._read_id = entry_id
            if len(entries) < _ENTRIES_A_READ:
                break
        if not entries:
            self._follow_back(client)

    def _follow_back(self, client: redis.Redis) -> None:
        """Go on from the newest entry where the stream ends before what was read.

        It is another one then, of a server that lost everything and whose clock is behind: its ids would
        not be later for as long as the clocks differ. What it has may be counted already, so that is left.
        """
        newest = streams.newest(client, keyspace.FACTS)
        if newest != streams.START and streams.is_before(newest, self._read_id):
            log.warning("the facts begin anew: the index is an earlier one", position=self._read_id)
            self._read_id = newest
