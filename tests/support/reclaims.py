"""Groups that are over a mark, and rounds of reclaim over them, for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kvcm_platform.core.reclaim.runs import ReclaimRequest, RunReport
from kvcm_platform.core.registry import GroupEntry, Quota
from kvcm_platform.duties import reclaim_work
from kvcm_platform.duties.reclaim import ReclaimSummary, reclaim_round
from kvcm_platform.index import keyspace
from kvcm_platform.index.codec import unpack_keys
from tests.support.data_plane import DataPlane, group

KIB = 1024
OLD = 1_700_000_000_000
"""A tick long ago, in ms."""


def limited(blocks: int, used_ratio: float = 0.8, **changes: Any) -> GroupEntry:
    """The group `default` with room for so many blocks of 1 KiB. Changes are of its reclaim settings."""
    quota = changes.pop("quota", Quota(blocks * KIB))
    base = group(quota=quota)
    reclaim = replace(base.reclaim, used_ratio=used_ratio, **changes)
    return replace(base, reclaim=reclaim)


async def reclaim(plane: DataPlane, seconds: float = 20.0) -> ReclaimSummary:
    """A round over everything that was pushed."""
    await plane.index.pusher.flush()
    return await reclaim_round(await plane.session(), seconds)


def reports(plane: DataPlane) -> list[RunReport]:
    """The newest of each run, in the order in which runs began."""
    found: dict[str, RunReport] = {}
    for _, fields in redis_of(plane).xrange(keyspace.RECLAIM_REPORTS):
        report = RunReport.from_dict(json.loads(fields[b"d"]))
        found[report.id] = report
    return list(found.values())


def redis_of(plane: DataPlane) -> Any:
    """The client of the platform's Redis, where the index is in this process, too."""
    return getattr(plane.client, "remote", plane.client)


def ask(plane: DataPlane, run_id: str = "00000000000000aa", **wanted: Any) -> ReclaimRequest:
    request = ReclaimRequest(run_id, wanted.pop("group", "default"), **wanted)
    fields = {name: getattr(request, name) for name in ReclaimRequest.__dataclass_fields__}
    redis_of(plane).hset(keyspace.RECLAIM_REQUESTS, run_id, json.dumps(fields))
    return request


def age(plane: DataPlane, chains: Sequence[Sequence[int]], instance_id: str = "model-a") -> None:
    """Chains were last used one after the other, a second apart, the first one first."""
    tick_of = {key: OLD + 1000 * number for number, keys in enumerate(chains) for key in keys}
    depth_of = {key: depth for keys in chains for depth, key in enumerate(keys)}
    entry = plane.mirror.current.instances[instance_id]
    for shard in range(entry.shards):
        base = keyspace.instance(entry.number, shard)
        for name, blob in plane.client.hgetall(keyspace.runs(base)).items():
            first = unpack_keys(blob)[0]
            if first in tick_of:
                score = tick_of[first] * 4096 + 4095 - depth_of[first]
                plane.client.zadd(keyspace.recency(base), {name: score})


async def served(plane: DataPlane, keys: Sequence[int], instance_id: str = "model-a") -> list[int]:
    """Those of the keys whose blocks are served."""
    statuses = await plane.statuses(keys, instance_id)
    return [key for key, status in zip(keys, statuses, strict=True) if status == "SERVING"]


class Died(BaseException):
    """Stands for kill -9."""


def dying(monkeypatch: pytest.MonkeyPatch, calls: int, *, is_after: bool) -> None:
    """The process dies in the n-th call that marks blocks, before or after it took effect."""
    original, made = reclaim_work.evict, 0

    async def evict(*args, **options):
        nonlocal made
        made += 1
        if made == calls and not is_after:
            raise Died
        found = await original(*args, **options)
        if made == calls:
            raise Died
        return found

    monkeypatch.setattr(reclaim_work, "evict", evict)
