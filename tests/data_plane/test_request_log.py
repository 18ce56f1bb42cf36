"""What is told of calls to instances that somebody watches, and that nothing is where nobody does."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import zstandard

from kvcm_platform.core.errors import DomainError
from kvcm_platform.core.registry import Quota
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.index import keyspace, noted_calls, request_log, request_switches
from kvcm_platform.index.capture_files import (
    BusyFile,
    CapturedInstance,
    CaptureProgress,
    DamagedFile,
    append,
    header_line,
    held,
    take_events,
)
from kvcm_platform.index.noted_calls import Noted
from kvcm_platform.index.request_entries import QUERY, START, decode_sampled
from kvcm_platform.index.request_log import RequestLog
from kvcm_platform.index.request_switches import CaptureSwitch, SampleSwitch
from kvcm_platform.metadata_service.access import Caller, MetaAccess
from kvcm_platform.pb import meta_service_pb2 as pb
from tests.support.data_plane import DataPlane, data_plane, group, handlers_of, instance, storage

KEYS = list(range(1, 41))
ALWAYS = 1 << 50


@pytest.fixture
def log() -> RequestLog:
    return RequestLog("metadata:test:1")


@pytest_asyncio.fixture
async def watched(empty_valkey, log, tmp_path) -> AsyncIterator[DataPlane]:
    """A stack with the log, and instances of two groups."""
    entries = (
        storage(tmp_path / "nfs"),
        group(),
        group(name="full", number=2, quota=Quota(0)),
        instance(),
        instance("model-b", 0xDEF, group="full", group_number=2),
    )
    client = empty_valkey.client()
    async with data_plane(empty_valkey.url, client, *entries, is_strict=False, tap=log) as built:
        yield built
    client.close()


def captured(plane: DataPlane, capture_id: str = "one", progress: CaptureProgress | None = None) -> list[Any]:
    return [
        json.loads(line) for line in take_events(plane.client, capture_id, progress or CaptureProgress())[1]
    ]


def without(event: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in names}


async def follow(plane: DataPlane, log: RequestLog, *, k: int | None = None, capture: set[str] = frozenset()):
    if k is not None:
        request_switches.set_samples(plane.client, {1: SampleSwitch(k, ALWAYS), 2: SampleSwitch(k, ALWAYS)})
    if capture:
        switch = CaptureSwitch(frozenset(capture), ALWAYS)
        request_switches.set_capture(plane.client, "one", switch)
    await log.refresh(plane.index.connection)


async def test_nothing_is_told_while_nobody_watches(watched, log):
    await watched.write(KEYS)
    await watched.match(KEYS)
    await follow(watched, log)
    assert not log.is_open
    await log.flush(watched.index.connection)
    assert not watched.client.keys("kvcm:requests:*")


async def test_switches_act_until_their_time(watched, log):
    now = time.time() * 1000
    request_switches.set_samples(watched.client, {1: SampleSwitch(3, round(now) - 1)})
    await log.refresh(watched.index.connection)
    assert not log.is_open
    request_switches.set_samples(watched.client, {1: SampleSwitch(3, round(now) + 60_000)})
    await log.refresh(watched.index.connection)
    assert log.is_open
    log.follow(request_switches.read_blocking(watched.client), now + 61_000)
    assert not log.is_open
    request_switches.drop_samples(watched.client, [1])
    request_switches.set_capture(
        watched.client, "c", CaptureSwitch(frozenset({"model-a"}), round(now) + 60_000)
    )
    await log.refresh(watched.index.connection)
    assert log.is_open
    request_switches.drop_capture(watched.client, "c")
    await log.refresh(watched.index.connection)
    assert not log.is_open


async def test_a_capture_has_what_the_protocols_event_log_has(watched, log):
    await follow(watched, log, capture={"model-a"})
    await watched.match(KEYS[:8])
    started = await watched.start(KEYS[:8])
    await watched.finish(started, [True] * 6 + [False] * 2)
    await watched.match(KEYS[:8], mask=2)
    await watched.match(KEYS[:4], mask=[True, False, True, False])
    await watched.match(KEYS[:4], query=1)
    await watched.match(KEYS[:4], query=3, sw_size=2)
    await watched.service.get_cache_location("model-a", 2, Blocks((), range(8)), None, 0, ())
    await watched.service.get_cache_location_len("model-a", 2, Blocks(KEYS, ()), 0)  # asks, and reads nothing
    with pytest.raises(DomainError):
        await watched.match(KEYS, query=9)
    await log.flush(watched.index.connection)
    events = captured(watched)
    plain = [without(event, "id", "trigger_time_us", "component", "source") for event in events]
    get = {"type": "GetCacheLocation", "tokens": [], "location_spec_names": [], "sw_size": 0}
    prefix = get | {"query_type": "prefix_match"}
    session = started.session_id
    assert plain[:6] == [
        prefix | {"keys": KEYS[:8], "block_mask": 0, "hit_blocks": 0},
        {
            **{"type": "StartWriteCache", "keys": KEYS[:8], "tokens": []},
            **{"write_session_id": session, "block_mask": 0},
        },
        {
            "type": "FinishWriteCache",
            "write_session_id": session,
            "success_block": [True] * 6 + [False] * 2,
        },
        prefix | {"keys": KEYS[:8], "block_mask": 2, "hit_blocks": 4},
        prefix | {"keys": KEYS[:4], "block_mask": [True, False, True, False], "hit_blocks": 2},
        get | {"query_type": "batch_get", "keys": KEYS[:4], "block_mask": 0, "hit_blocks": 4},
    ]
    assert plain[6]["query_type"] == "reverse_roll_sw_match" and plain[6]["sw_size"] == 2
    # Block keys of tokens, as WIRE.md 3.1 has them for other tokens; here: that there are two, and chained.
    assert len(plain[7]["keys"]) == 2 and plain[7]["input_tokens"] == 8 and len(plain) == 8
    assert {event["source"] for event in events} == {"model-a"}
    assert len({event["id"] for event in events}) == 8 and all(len(event["id"]) == 32 for event in events)
    times = [event["trigger_time_us"] for event in events]
    assert times == sorted(times) and abs(times[0] / 1e6 - time.time()) < 60


async def test_answers_at_once_are_told_like_others(watched, log):
    await watched.write(KEYS)
    await watched.match(KEYS)
    await watched.match(KEYS[3:])
    await follow(watched, log, k=0, capture={"model-a"})
    served = handlers_of(watched, MetaAccess("open", "", "internal", watched.index.connection))
    rpc, caller = served.rpcs["GetCacheLocation"], Caller("127.0.0.1")
    for offset in (0, 3):
        question = pb.GetCacheLocationRequest(
            instance_id="model-a", query_type=pb.QT_PREFIX_MATCH, block_keys=KEYS
        )
        if offset:
            question.block_mask.offset = offset
        assert served.at_once(rpc, question, caller) is not None
        await served.call(rpc, question, caller)
    await log.flush(watched.index.connection)
    events = [without(event, "id", "trigger_time_us") for event in captured(watched)]
    assert events[0] == events[1] and events[2] == events[3]
    assert [event["hit_blocks"] for event in events] == [40, 40, 37, 37]
    (calls,) = sampled_of(watched, 1)
    assert calls.asked.tolist() == [[2, 2 * (3 + 1), 2 * (12 + 12), 2 * (24 + 24), 0, 0]]
    assert calls.hits.tolist() == [2 * (40 + 37)]


def sampled_of(plane: DataPlane, number: int) -> list[Any]:
    return [decode_sampled(fields) for _, fields in plane.client.xrange(keyspace.sampled_requests(number))]


async def test_starts_without_room_are_sampled_but_not_captured(watched, log):
    await follow(watched, log, k=0, capture={"model-b"})
    with pytest.raises(DomainError):
        await watched.start(KEYS, "model-b")
    await watched.match(KEYS, instance_id="model-b")
    await watched.match(KEYS)
    await log.flush(watched.index.connection)
    (full,) = sampled_of(watched, 2)
    assert full.kinds.tolist() == [START, QUERY] and full.counts.tolist() == [40, 40] and full.calls == 2
    assert [(one.instance_id, one.number) for one in full.instances] == [("model-b", 0xDEF)]
    assert [event["type"] for event in captured(watched)] == ["GetCacheLocation"]
    assert len(sampled_of(watched, 1)) == 1


async def test_what_finds_no_room_is_counted(watched, log, monkeypatch):
    monkeypatch.setattr(request_log, "MOST_CALLS", 3)
    await follow(watched, log, k=0, capture={"model-a"})
    for _ in range(5):
        await watched.match(KEYS)
    await log.flush(watched.index.connection)
    await watched.match(KEYS)
    await log.flush(watched.index.connection)
    progress, lines = take_events(watched.client, "one", CaptureProgress())
    assert (len(lines), progress.events, progress.lost_events) == (4, 4, 2)
    assert [calls.calls for calls in sampled_of(watched, 1)] == [5, 6]
    monkeypatch.setattr(request_log, "MOST_KEYS", 79)
    await watched.match(KEYS)
    await watched.match(KEYS)
    await log.flush(watched.index.connection)
    again, lines = take_events(watched.client, "one", progress)
    assert (len(lines), again.lost_events) == (1, 3)
    assert take_events(watched.client, "one", again) == (again, [])


async def test_too_many_blocks_halve_the_rate(watched, log, monkeypatch):
    monkeypatch.setattr(request_log, "MOST_ACCESSES", 100)
    await follow(watched, log, k=0)
    for begin in range(0, 4000, 400):
        await watched.match(range(begin, begin + 400))
    await log.flush(watched.index.connection)
    (calls,) = sampled_of(watched, 1)
    assert calls.k > 1 and len(calls.ids) <= 100
    await follow(watched, log)  # an unchanged switch does not bring the old rate back
    await watched.match(KEYS)
    await log.flush(watched.index.connection)
    assert sampled_of(watched, 1)[1].k == calls.k
    await follow(watched, log, k=1)
    await watched.match(KEYS[:3])
    await log.flush(watched.index.connection)
    assert sampled_of(watched, 1)[2].k == 1


async def test_large_flushes_go_in_slices(watched, log, monkeypatch):
    monkeypatch.setattr(request_log, "SLICE_KEYS", 100)
    await follow(watched, log, capture={"model-a"})
    for _ in range(7):
        await watched.match(KEYS)
    await log.flush(watched.index.connection)
    assert watched.client.xlen(keyspace.captured_requests("one")) == 3
    assert watched.client.pttl(keyspace.captured_requests("one")) > 0
    progress, lines = take_events(watched.client, "one", CaptureProgress())
    assert len(lines) == 7 and progress.lost_events == 0


MASK64 = (1 << 64) - 1


def naive_id(key: int, number: int) -> int:
    """The mixer of core/sampling with numbers of Python."""
    bits = (key & MASK64) ^ (number * 0x9E3779B97F4A7C15 & MASK64)
    for _ in range(2):
        bits = (bits ^ bits >> 32) * 0xD6E8FEB86659FD93 & MASK64
    return bits ^ bits >> 32


@pytest.mark.parametrize("k", [0, 3, 7, 12])
def test_sampled_blocks_are_those_of_a_naive_model(k):
    one, two = instance(), instance("model-b", 0xDEF)
    starts = [-(1 << 62), 5, 1 << 40]
    noted = [
        Noted(QUERY, one, range(starts[0], starts[0] + 2000), None, 0, 1500, 2),
        Noted(QUERY, two, range(starts[1], starts[1] + 300), 100, 0, 50, 4),
        Noted(QUERY, one, range(starts[2], starts[2] + 80), [at % 3 == 0 for at in range(60)], 0, 20, 2),
        Noted(START, two, range(starts[1], starts[1] + 300), None, 0),
        Noted(QUERY, one, range(10), 50, 0, 0, 2),
    ]
    calls = noted_calls.sampled(noted, k)
    expected, asked_of = [], {0xABC: [0] * 6, 0xDEF: [0] * 6}
    for call in noted:
        rank = 0
        for depth, key in enumerate(call.keys):
            depth_class = sum(depth >= end for end in (1, 4, 16, 64, 256)) if call.kind == QUERY else 5
            bits = max(0, k - (12, 8, 6, 4, 2, 0)[depth_class])
            if isinstance(call.mask, list):
                is_asked = depth >= 60 or not call.mask[depth]
            else:
                is_asked = call.kind == QUERY and depth >= (call.mask or 0)
            rank += is_asked
            if is_asked:
                asked_of[call.instance.number][depth_class] += 1
            block = naive_id(key, call.instance.number)
            if block >> 64 - bits == 0:
                marks = 0x10 * is_asked + 0x20 * (is_asked and rank <= call.hits)
                expected.append((call.instance.number, call.kind, block, depth_class + marks))
    of_call = [at for at, count in enumerate(calls.counts.tolist()) for _ in range(count)]
    numbers = [one.number for one in calls.instances]
    found = [
        (numbers[calls.instance[at]], int(calls.kinds[at]), block, mark)
        for at, block, mark in zip(of_call, calls.ids.tolist(), calls.flags.tolist(), strict=True)
    ]
    assert found == expected
    assert calls.asked.tolist() == [asked_of[number] for number in numbers]
    assert calls.hits.tolist() == [1520, 50]


def test_a_captures_file_is_whole_at_every_noted_size(tmp_path):
    path = tmp_path / "capture"
    head = header_line([CapturedInstance("model-a", 16, 4096, "default")])
    assert json.loads(head) == {
        "kvcm_capture": 1,
        "instances": [
            {"instance_id": "model-a", "block_tokens": 16, "block_bytes": 4096, "group": "default"}
        ],
    }
    with held(path) as descriptor:
        size = append(descriptor, 0, [head])
        with pytest.raises(BusyFile), held(path):
            pass
    with held(path) as descriptor:
        append(descriptor, size, [b"of one who died before the size was noted\n"])
    with held(path) as descriptor:
        size = append(descriptor, size, [b"second\n"])
    with path.open("rb") as file:
        text = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()
    assert text == head + b"second\n" and path.stat().st_size == size
    with held(path) as descriptor, pytest.raises(DamagedFile):
        append(descriptor, size + 1, [b"third\n"])
