"""What less and more capacity would hit: the newest online estimates, as the rounds left them in Redis."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import redis

from apps.common.actor import Actor
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.validation.values import INT64
from kvcm_platform.index import keyspace

_ANYBODY = Actor.system("estimates")


class EstimateKind(StrEnum):
    GROUP = "group"
    INSTANCE = "instance"


@dataclass(frozen=True, slots=True)
class EstimatePoint:
    """At `factor` times the present capacity. `unique_blocks`: distinct blocks that such a cache of the whole
    group holds now."""

    factor: float
    capacity_bytes: int
    hit_blocks: int
    hit_rate: float | None
    unique_blocks: int


@dataclass(frozen=True, slots=True)
class EstimateRow:
    """Of a group, or of one of its instances, which share the group's capacity.

    Over the window that ends at `at`: `asked_blocks` of prefix matches, of which `real_hit_blocks` were
    found; rates are None where nothing was asked. `since` is when the estimate began, empty: before it
    has seen as much as the largest capacity holds (`has_seen_all`), blocks that were there already count
    as found from the present capacity on. `sampled_ratio` of all blocks are looked at, and more of
    shallow ones. `lost_calls`: those that nobody had room for.
    """

    kind: EstimateKind
    instance_group: str
    instance_id: str
    at: datetime
    since: datetime
    window_seconds: int
    capacity_bytes: int
    asked_blocks: int
    real_hit_blocks: int
    real_hit_rate: float | None
    points: tuple[EstimatePoint, ...]
    sampled_ratio: float
    sampled_blocks: int
    has_seen_all: bool
    lost_calls: int


def estimate_list(
    *, client: redis.Redis, acting: Actor, instance_group: str = "", instance_id: str = "", kind: str = ""
) -> list[EstimateRow]:
    """Those that `acting` may see, each group followed by its instances. Raises RedisError."""
    told = [json.loads(text) for text in client.hvals(keyspace.ESTIMATES)]
    rows = []
    for data in sorted(told, key=lambda data: str(data["group"])):
        if acting.groups is not None and data["group"] not in acting.groups:
            continue
        if instance_group in ("", data["group"]):
            rows += _rows(data)
    return [
        row for row in rows if kind in ("", row.kind) and (not instance_id or row.instance_id == instance_id)
    ]


def estimate_get(*, client: redis.Redis, instance_group: str, instance_id: str = "") -> EstimateRow:
    """Of a group, or of what one of its instances asked for; who may see it was judged before.

    Raises NOT_READY where nothing is known yet, and RedisError.
    """
    kind = EstimateKind.INSTANCE if instance_id else EstimateKind.GROUP
    rows = estimate_list(
        client=client, acting=_ANYBODY, instance_group=instance_group, instance_id=instance_id, kind=kind
    )
    if not rows:
        raise DomainError(
            Code.NOT_READY,
            f"nothing is known yet of {kind} {instance_id or instance_group}:"
            " no prefix match of it was sampled in the last minutes",
        )
    return rows[0]


def _rows(data: Mapping[str, Any]) -> Iterator[EstimateRow]:
    yield _row(data, EstimateKind.GROUP, "", data["total"])
    for instance_id, figures in sorted(data["instances"].items()):
        yield _row(data, EstimateKind.INSTANCE, instance_id, figures)


def _row(
    data: Mapping[str, Any], kind: EstimateKind, instance_id: str, figures: Mapping[str, Any]
) -> EstimateRow:
    asked = figures["asked"]
    points = tuple(
        EstimatePoint(
            factor=factor,
            # A quota that stands for "none" may be as large as numbers of bytes go.
            capacity_bytes=min(round(data["capacity_bytes"] * factor), INT64),
            hit_blocks=hits,
            hit_rate=min(1.0, hits / asked) if asked else None,
            unique_blocks=unique,
        )
        for factor, hits, unique in zip(data["factors"], figures["hits"], data["unique_blocks"], strict=True)
    )
    return EstimateRow(
        kind=kind,
        instance_group=data["group"],
        instance_id=instance_id,
        at=_time(data["at_ms"]),
        since=_time(data["since_ms"]),
        window_seconds=data["window_ms"] // 1000,
        capacity_bytes=data["capacity_bytes"],
        asked_blocks=asked,
        real_hit_blocks=figures["real_hits"],
        real_hit_rate=figures["real_hits"] / asked if asked else None,
        points=points,
        sampled_ratio=data["sampled_ratio"],
        sampled_blocks=data["sampled_blocks"],
        has_seen_all=data["has_seen_all"],
        lost_calls=data["lost_calls"],
    )


def _time(unix_ms: int) -> datetime:
    return datetime.fromtimestamp(unix_ms / 1000, tz=UTC)
