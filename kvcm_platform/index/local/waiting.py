"""Deletions that are set aside for a storage that cannot be used. The twin of `index/lua/3_waiting.lua`."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from kvcm_platform.index import keyspace

from .changes import Call

ASIDE = 1 << 43


def aside(call: Call, args: Sequence[bytes]) -> list[int | bytes]:
    """What is set aside for one storage, oldest first."""
    step = int(args[0]) + 1
    scores = call.tx.scores(keyspace.pending_due(call.base))
    found = ((score, member) for member, score in scores.items() if score // ASIDE == step)
    members = [member for _, member in heapq.nsmallest(int(args[1]), found)]
    reply: list[int | bytes] = [call.now_ms, 0]
    for member, value in zip(members, call.tx.hmget(keyspace.pending(call.base), members), strict=True):
        reply += [member, value or b""]
    return reply


def asides(call: Call, args: Sequence[bytes]) -> list[int]:
    """Numbers of the storages for which anything is set aside, highest first."""
    steps = {int(score // ASIDE) for score in call.tx.scores(keyspace.pending_due(call.base)).values()}
    return sorted((step - 1 for step in steps if step), reverse=True)
