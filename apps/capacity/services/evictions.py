"""Why blocks left: what the index remembers, with the runs that are on record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from apps.capacity.selectors import runs_by_id
from apps.common.actor import Actor
from apps.common.redis_client import blocks_client
from apps.instances.selectors import instance_get
from apps.storages.selectors import storage_entries
from kvcm_platform.core.errors import invalid
from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.core.values import named
from kvcm_platform.index import gone

SHOWN = 100
_SENTENCES = {
    "reclaim": "Evicted by reclaim run {what}",
    "remove": "Removed on request",
    "trim": "Taken by trim {what}",
    "failed": "The engine said that it was not written",
    "expired": "Its write was not finished in time",
    "moved": "Moved to another storage",
    "cleared": "Nothing may stay on its storage, {what}",
    "lost": "Its object was found missing",
}


@dataclass(frozen=True, slots=True)
class Departure:
    """One location of a block that went. `cause` is one of _SENTENCES, `run_id` that of a run on record."""

    at: datetime
    key: int
    cause: str
    what: str
    run_id: str | None
    trigger: str | None
    sentence: str


def departures(*, acting: Actor, instance_id: str, key: str = "", at_most: int = SHOWN) -> list[Departure]:
    """Why locations of one block went, or what went last where no `key` is given; the newest first.

    A key is the number of a block, or the text of a key of values. What is kept and how long: index/gone.py.
    An index in a metadata process brings its reasons to Redis within a second.
    Raises INSTANCE_NOT_EXIST, INVALID_ARGUMENT, redis.RedisError.
    """
    entry = instance_get(acting=acting, instance_id=instance_id).entry()
    if not 1 <= at_most <= gone.MOST:
        raise invalid("at_most", f"must be within 1..{gone.MOST}")
    client = blocks_client()
    if key:
        found = gone.gone_of(client, entry, _block_key(entry, key), at_most)
    else:
        found = gone.gone_recent(client, entry, at_most)
    runs = runs_by_id({one.run_id for one in found if one.run_id})
    names = _storage_names() if any(one.reason.startswith("cleared") for one in found) else {}
    shown = []
    for one in found:
        cause, _, what = one.reason.partition(":")
        if cause == "cleared":
            what = names.get(int(what), f"number {what}")
        run = runs.get(one.run_id)
        sentence = _SENTENCES.get(cause, cause).format(what=what)
        if run is not None:
            sentence += f" ({run.trigger})"
        at = datetime.fromtimestamp(one.at_ms / 1000, UTC)
        shown.append(
            Departure(
                *(at, one.key, cause, what),
                run_id=None if run is None else run.run_id,
                trigger=None if run is None else run.trigger,
                sentence=f"{sentence}.",
            )
        )
    return shown


def _storage_names() -> dict[int, str]:
    return {number: f"storage {entry.name}" for entry in storage_entries() for number in entry.numbers}


def _block_key(entry: InstanceEntry, key: str) -> int:
    if entry.has_values:
        return named(entry.number, [key]).keys[0]
    try:
        number = int(key)
    except ValueError as error:
        raise invalid("key", "must be the number of a block") from error
    if not -(1 << 63) <= number < 1 << 63:
        raise invalid("key", "must be a signed number of 64 bits")
    return number
