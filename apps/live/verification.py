"""What is to be said while an index that may have lost changes is checked (kvcm_platform.index.life)."""

from __future__ import annotations

import json

import redis

from kvcm_platform.index import keyspace, life

_UNTIL_THEN = "Until then blocks are misses."


def verification(client: redis.Redis) -> str:
    """One or two sentences; empty when the index may be trusted. Raises redis.RedisError."""
    state, doubt = client.hmget(keyspace.GENERATION, ["state", "doubt"])
    if state == life.UNDECIDED:
        return f"The index came back and waits for control to say whether it is complete. {_UNTIL_THEN}"
    if not doubt:
        return ""
    why = "The index fell back to a replica or an older file and is being checked"
    progress = json.loads(client.hget(keyspace.VERIFYING, "progress") or "{}")
    if not progress:
        return f"{why}. {_UNTIL_THEN}"
    done = progress["shards"] - progress["left"]
    waiting = f" It waits for {progress['waiting'].rstrip('.')}." if progress["waiting"] else ""
    return f"{why}: {done} of {progress['shards']} shards.{waiting} {_UNTIL_THEN}"
