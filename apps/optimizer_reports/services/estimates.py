"""The round of the online estimate: reads on in the streams of sampled calls, and leaves what they say.

A group's state and its position in its stream are one value in Redis, so any worker carries on where
another one was killed; a round that lost its lease costs work twice, and counts nothing twice.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import redis
import structlog

from apps.common.actor import Actor
from apps.instances.selectors import group_entries, instance_list
from kvcm_platform.core.reclaim.marks import mark_of
from kvcm_platform.core.registry import GroupEntry, InstanceEntry
from kvcm_platform.index import functions, keyspace, request_switches, streams
from kvcm_platform.index.registry import ensure_functions
from kvcm_platform.index.request_entries import SampledCalls, decode_sampled
from kvcm_platform.index.request_switches import SampleSwitch
from kvcm_platform.optimizer.online import FACTORS, MOST_BLOCKS, WINDOW_SPANS, Estimate, OnlineStack, together
from kvcm_platform.optimizer.online_form import OnlineRecord, online_from_bytes, online_to_bytes

log = structlog.get_logger(__name__)

LEASE_MS = 60_000
ROUND_SECONDS = 4.0
"""What is not read by then waits for the next round."""
ENTRIES_A_READ = 100
SWITCH_MS = 600_000
"""Metadata processes go on sampling for so long without a word from a worker."""
STATE_SECONDS = 86_400
REFRESH_MS = 30_000
"""The window slides, whether calls come or not."""
CALM_MS = 3_600_000
CALM_SHARE = 16
"""A stack that has so much less than it may have, for so long, begins anew at a finer rate."""
_SYSTEM = Actor.system("estimates")


def capacity_of(group: GroupEntry) -> int:
    """The bytes at which a group gives blocks back: what its cache holds at most."""
    return mark_of(group.reclaim, group.quota.capacity_bytes, used_bytes=group.reclaim.used_bytes).high


def estimates_follow(*, client: redis.Redis, now_ms: int | None = None) -> dict[str, int]:
    """One round over all groups; how many had traffic, and the calls that were read. Raises RedisError."""
    now_ms = round(time.time() * 1000) if now_ms is None else now_ms
    with _lease(client) as is_held:
        if not is_held:
            return {"groups": 0, "calls": 0}
        groups = {group.number: group for group in group_entries()}
        _forget(client, groups)
        busy = _busy(client, groups, now_ms)
        instances = _instances(groups[number].name for number in busy)
        deadline, calls, rates = time.monotonic() + ROUND_SECONDS, 0, {}
        for number in busy:
            if time.monotonic() < deadline:
                group = groups[number]
                record, received = _carry_on(client, group, instances.get(group.name, ()), now_ms, deadline)
                rates[number] = record.stack.k
                calls += received
        _switch(client, groups, rates, now_ms)
    return {"groups": len(busy), "calls": calls}


def _instances(names: Iterator[str]) -> dict[str, list[InstanceEntry]]:
    found: dict[str, list[InstanceEntry]] = {}
    for row in instance_list(acting=_SYSTEM).filter(group__name__in=list(names)):
        found.setdefault(row.group.name, []).append(row.entry())
    return found


def _busy(client: redis.Redis, groups: Collection[int], now_ms: int) -> list[int]:
    """Groups with news in their streams, or whose figures have become old, those first that waited longest.

    So a round that runs out of time begins elsewhere next time.
    """
    numbers = sorted(groups)
    pipeline = client.pipeline(transaction=False)
    for number in numbers:
        pipeline.xrevrange(keyspace.sampled_requests(number), count=1)
        pipeline.hget(keyspace.ESTIMATES, str(number))
    answers = pipeline.execute()
    waiting: list[tuple[int, int]] = []
    for number, newest, text in zip(numbers, answers[::2], answers[1::2], strict=True):
        told: dict[str, Any] = json.loads(text) if text else {"at_ms": 0, "position": ""}
        is_old = now_ms - told["at_ms"] > REFRESH_MS
        if newest and (is_old or newest[0][0].decode() != told["position"]):
            waiting.append((int(told["at_ms"]), number))
    return [number for _, number in sorted(waiting)]


def _carry_on(
    client: redis.Redis, group: GroupEntry, instances: Sequence[InstanceEntry], now_ms: int, deadline: float
) -> tuple[OnlineRecord, int]:
    """Reads on in one group's stream; the new state, and the calls that were read."""
    record = _state(client, group.number, now_ms)
    stack = record.stack
    stack.set_capacity(capacity_of(group), now_ms)
    block_bytes = {one.number: sum(spec.size for spec in one.location_spec_infos) for one in instances}
    received = 0
    while True:
        entries, count = _entries(client, group.number, record)
        received += sum(len(one.counts) for one in entries)
        owners = [[one.number for one in entry.instances] for entry in entries]
        stack.add(entries, owners, block_bytes)
        if count < ENTRIES_A_READ or time.monotonic() > deadline:
            break
    _calm_down(record, now_ms)
    client.set(keyspace.estimate_state(group.number), online_to_bytes(record), ex=STATE_SECONDS)
    told = _told(group, instances, record, block_bytes, now_ms)
    client.hset(keyspace.ESTIMATES, str(group.number), json.dumps(told))
    return record, received


def _state(client: redis.Redis, number: int, now_ms: int) -> OnlineRecord:
    data = client.get(keyspace.estimate_state(number))
    if data is not None:
        try:
            return online_from_bytes(data)
        except ValueError as error:
            log.warning("an estimate begins anew", group_number=number, reason=str(error))
    return OnlineRecord(OnlineStack(since_ms=now_ms), position=streams.START)


def _entries(client: redis.Redis, number: int, record: OnlineRecord) -> tuple[list[SampledCalls], int]:
    """What comes next in a group's stream, and how many entries that were; `record` is as of behind them."""
    key = keyspace.sampled_requests(number)
    raw = client.xrange(key, min=f"({record.position}", count=ENTRIES_A_READ)
    if not raw and streams.is_before(streams.newest(client, key), record.position):
        record.position = streams.START  # an earlier server: its stream is another one
    found = []
    for raw_id, fields in raw:
        record.position = raw_id.decode()
        try:
            calls = decode_sampled(fields)
        except (KeyError, ValueError) as error:
            log.warning("sampled calls cannot be read", group_number=number, reason=str(error))
            continue
        record.hear(calls.process, calls.calls, len(calls.counts))
        # By the server's clock: those of hosts differ, and one far ahead would end the window.
        found.append(replace(calls, at_ms=int(record.position.partition("-")[0])))
    return found, len(raw)


def _calm_down(record: OnlineRecord, now_ms: int) -> None:
    """After a burst that needed a coarse rate, or of a large quota that was lowered."""
    stack = record.stack
    if not stack.k or len(stack.ids) > MOST_BLOCKS // CALM_SHARE:
        record.calm_since_ms = 0
    elif not record.calm_since_ms:
        record.calm_since_ms = now_ms
    elif now_ms - record.calm_since_ms > CALM_MS:
        record.calm_since_ms = 0
        stack.restart(max(0, stack.k - 2), now_ms)


def _told(
    group: GroupEntry,
    instances: Sequence[InstanceEntry],
    record: OnlineRecord,
    block_bytes: Mapping[int, int],
    now_ms: int,
) -> dict[str, Any]:
    """The JSON form in `kvcm:estimates`; selectors/estimates.py reads it."""
    stack = record.stack
    found = stack.estimates(now_ms)
    names = {one.number: one.instance_id for one in instances}
    return {
        "group": group.name,
        "at_ms": now_ms,
        "position": record.position,
        "since_ms": stack.since_ms,
        "window_ms": WINDOW_SPANS * 60_000,
        "capacity_bytes": stack.capacity_bytes,
        "factors": FACTORS,
        "sampled_ratio": 2.0**-stack.k,
        "sampled_blocks": len(stack.ids),
        "has_seen_all": stack.has_dropped,
        "lost_calls": record.lost_calls,
        "unique_blocks": stack.unique_blocks(block_bytes),
        "total": _figures(together(found)),
        "instances": {
            names[number]: _figures(estimate) for number, estimate in sorted(found.items()) if number in names
        },
    }


def _figures(estimate: Estimate) -> dict[str, Any]:
    return {
        "asked": estimate.asked_blocks,
        "real_hits": estimate.real_hit_blocks,
        "hits": [round(hits) for hits in estimate.hit_blocks],
    }


def _forget(client: redis.Redis, groups: Collection[int]) -> None:
    """What is left of groups that are gone."""
    gone = [int(number) for number in client.hkeys(keyspace.ESTIMATES) if int(number) not in groups]
    switched = request_switches.read_blocking(client).samples
    request_switches.drop_samples(client, [number for number in switched if number not in groups])
    for number in gone:
        client.hdel(keyspace.ESTIMATES, str(number))
        client.delete(keyspace.estimate_state(number))


def _switch(client: redis.Redis, groups: Collection[int], rates: Mapping[int, int], now_ms: int) -> None:
    """Has all groups sampled for a while longer, each at the rate that its stack has come to."""
    known = request_switches.read_blocking(client).samples
    wanted = {}
    for number in groups:
        one = known.get(number)
        k = rates.get(number, one.k if one is not None else 0)
        if one is None or one.k != k or one.until_ms < now_ms + SWITCH_MS // 2:
            wanted[number] = SampleSwitch(k, now_ms + SWITCH_MS)
    request_switches.set_samples(client, wanted)


def estimates_stop(*, client: redis.Redis) -> None:
    """Nothing is sampled any more, and nothing shown. Raises RedisError."""
    request_switches.drop_samples(client, list(request_switches.read_blocking(client).samples))
    for number in client.hkeys(keyspace.ESTIMATES):
        client.delete(keyspace.estimate_state(int(number)))
    client.delete(keyspace.ESTIMATES)


@contextmanager
def _lease(client: redis.Redis) -> Iterator[bool]:
    """Whether this round is the only one. Raises RedisError."""
    ensure_functions(client)
    owner = secrets.token_hex(8)
    name, key = functions.name, keyspace.ESTIMATES_LEASE
    if not client.fcall(name("kvcm_lease_take"), 1, key, owner, LEASE_MS):
        yield False
        return
    try:
        yield True
    finally:
        client.fcall(name("kvcm_lease_drop"), 1, key, owner)
