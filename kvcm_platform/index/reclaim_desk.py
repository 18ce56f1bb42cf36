"""Between the reclaimers and who keeps their books: reports, troubles, requests and cancellations.

Everything here is on the platform's own Redis. The reclaimers' side is `kvcm_platform/duties/reclaim.py`.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict

import redis
import structlog

from kvcm_platform.core.reclaim.open_run import OpenRun
from kvcm_platform.core.reclaim.runs import ReclaimRequest, RunReport, checked

from . import keyspace, streams
from .reclaim_book import Trouble
from .reclaim_book import trouble as trouble_now

log = structlog.get_logger(__name__)


def troubles(client: redis.Redis) -> dict[str, Trouble]:
    """By the name of the group; what cannot be read is one without a reason. Raises redis.RedisError."""
    found = {}
    for name, raw in client.hgetall(keyspace.RECLAIM_TROUBLES).items():
        try:
            found[name.decode()] = Trouble.loads(raw)
        except (KeyError, TypeError, ValueError) as error:
            log.error("a trouble of reclaim cannot be read", group=name.decode(), reason=repr(error))
            found[name.decode()] = trouble_now("the reason was noted in a way that cannot be read")
    return found


def reports_after(client: redis.Redis, position: str, at_most: int) -> list[tuple[str, RunReport | None]]:
    """The next reports, oldest first, each with its position. Raises redis.RedisError.

    None = one that cannot be read; it has a position too, so that nobody is held up by it.
    """
    entries = client.xrange(keyspace.RECLAIM_REPORTS, min=f"({position}", count=at_most)
    return [(entry.decode(), _report(fields)) for entry, fields in entries]


def _report(fields: dict[bytes, bytes]) -> RunReport | None:
    try:
        return checked(RunReport.from_dict(json.loads(fields[b"d"])))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        log.error("a report of a reclaim run cannot be read", reason=repr(error))
        return None


def newest_report(client: redis.Redis) -> str:
    """Position of the newest report; START when there is none. Raises redis.RedisError."""
    return streams.newest(client, keyspace.RECLAIM_REPORTS)


def request_hand_in(client: redis.Redis, request: ReclaimRequest) -> None:
    """Leave a request to the reclaimers. Raises redis.RedisError."""
    client.hset(keyspace.RECLAIM_REQUESTS, request.id, json.dumps(asdict(request)))


def cancel_hand_in(client: redis.Redis, run_id: str) -> bool:
    """Ask that a run ends; True when nobody had begun with it. Raises redis.RedisError."""
    client.sadd(keyspace.RECLAIM_CANCELS, run_id)
    return bool(client.hdel(keyspace.RECLAIM_REQUESTS, run_id))


def cancels_forget(client: redis.Redis, run_ids: Collection[str]) -> None:
    """Drop the cancellations of runs that are over. Raises redis.RedisError."""
    if run_ids:
        client.srem(keyspace.RECLAIM_CANCELS, *run_ids)


def cancels(client: redis.Redis) -> set[str]:
    """Ids of the runs that are to end. Raises redis.RedisError."""
    return {raw.decode() for raw in client.smembers(keyspace.RECLAIM_CANCELS)}


def runs_known(client: redis.Redis) -> set[str]:
    """Ids of the runs that the reclaimers know of: requested, choosing, or waiting for deletions.

    Raises redis.RedisError.
    """
    pipeline = client.pipeline(transaction=False)
    for key in (keyspace.RECLAIM_REQUESTS, keyspace.RECLAIM_SETTLING):
        pipeline.hkeys(key)
    pipeline.hvals(keyspace.RECLAIM_OPEN)
    requested, settling, opened = pipeline.execute()
    found = {raw.decode() for raw in [*requested, *settling]}
    for raw in opened:
        # One that cannot be read is taken off by the next round: nobody goes on with it.
        with suppress(ValueError):
            found.add(OpenRun.loads(raw).report.id)
    return found
