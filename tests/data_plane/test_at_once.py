"""Matches without I/O: they say what the usual way says, and nothing where it must be asked."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import struct
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from kvcm_platform.core.errors import DomainError
from kvcm_platform.index import keyspace, search_cache
from kvcm_platform.index.facts import decode
from kvcm_platform.metadata_service import mapping
from kvcm_platform.metadata_service.access import Caller, MetaAccess
from kvcm_platform.metadata_service.meta_handlers import SPAN_SUFFIX, MetaHandlers
from kvcm_platform.pb import meta_service_pb2 as pb
from tests.support.data_plane import (
    DataPlane,
    Found,
    data_plane,
    found_all,
    group,
    handlers_of,
    instance,
    storage,
)

KEYS = list(range(1, 301))


@pytest_asyncio.fixture
async def reader(plane: DataPlane, empty_valkey) -> AsyncIterator[DataPlane]:
    async with data_plane(empty_valkey.url, plane.client, is_strict=False) as other:
        yield other


def at_once(plane: DataPlane, keys: list[int], offset: int = 0, name: str = "model-a") -> list[Found] | None:
    pieces = plane.service.prefix_at_once(name, struct.pack(f"={len(keys)}q", *keys), offset)
    return None if pieces is None else found_all(pieces)


async def test_a_known_prefix_is_answered_as_the_usual_way_does(plane, reader):
    await plane.write(KEYS)
    assert at_once(reader, KEYS) is None
    usual = await reader.match(KEYS)
    assert at_once(reader, KEYS) == usual
    assert at_once(reader, KEYS[:128]) == usual[:128]
    assert at_once(reader, KEYS[:64], 0) == usual[:64]
    # Chunks start at the first key that is looked for: behind a mask they are others.
    assert at_once(reader, KEYS, 3) is None
    assert await reader.match(KEYS, mask=3) == at_once(reader, KEYS, 3) == usual[3:]


async def test_what_ends_in_a_miss_is_not_answered(plane, reader):
    await plane.write(KEYS[:64])
    await reader.match(KEYS)
    assert at_once(reader, KEYS) is None
    assert at_once(reader, KEYS[:64]) is not None


async def test_facts_and_recency_are_noted(plane, reader):
    await plane.write(KEYS)
    await reader.match(KEYS)
    await reader.match(KEYS, mask=64)
    reader.facts.take()
    await reader.index.recency.flush()
    recency = keyspace.recency(keyspace.instance(0xABC, 0))
    before = dict(plane.client.zrange(recency, 0, -1, withscores=True))
    await asyncio.sleep(0.01)
    assert at_once(reader, KEYS, 64) is not None
    row = reader.facts._instances["model-a"]
    assert dict(row) == {"requests": 1, "requested_blocks": 236, "hit_blocks": 236}
    await reader.index.recency.flush()
    after = dict(plane.client.zrange(recency, 0, -1, withscores=True))
    # All of them: those of the masked blocks, which the caller has in its own memory, too.
    assert len(after) == len(before) and all(after[run] > before[run] for run in before)


async def test_a_removal_is_seen(plane, reader, monkeypatch):
    await plane.write(KEYS)
    await reader.match(KEYS)
    removed = plane.mirror.current.instances["model-a"]
    await plane.index.remove(removed, [300], 0)
    await reader.cache.refresh_active()
    assert at_once(reader, KEYS) is None
    assert at_once(reader, KEYS[:256]) is not None
    # Its own removals count at once, others' when the position has not been confirmed lately.
    reader.cache.distrust(removed)
    assert at_once(reader, KEYS[:256]) is None
    await reader.cache.refresh_active()
    assert at_once(reader, KEYS[:256]) is not None
    monkeypatch.setattr(search_cache, "CONFIRM_AFTER", -1.0)
    assert at_once(reader, KEYS[:256]) is None


async def test_who_must_ask_the_usual_way(plane, reader):
    await plane.write(KEYS)
    await reader.match(KEYS)
    await reader.match(KEYS[299:])
    assert at_once(reader, KEYS) is not None
    assert at_once(reader, []) is None
    assert at_once(reader, KEYS, -1) is None
    assert at_once(reader, KEYS, 300) is None
    assert at_once(reader, KEYS, name="nobody") is None
    assert at_once(reader, [1] * 70_000) is None
    assert at_once(plane, KEYS) is None  # strict reads


async def test_storages_that_are_not_served(plane, reader, tmp_path):
    await plane.write(KEYS)
    await reader.match(KEYS)
    plane.publish(2, storage(tmp_path / "nfs", is_available=False))
    await reader.mirror.refresh()
    assert at_once(reader, KEYS) is None
    plane.publish(3, storage(tmp_path / "nfs"), group(storage_candidates=()))
    await reader.mirror.refresh()
    assert at_once(reader, KEYS) is None


async def test_groups_of_specs_and_a_cache_turned_off(plane, reader):
    grouped = instance("two", 0xDEF, specs=[("tp0", 64), ("tp1", 64)], groups=[("some", ["tp0"])])
    settings = group().meta_indexer
    plane.publish(2, grouped)
    await plane.mirror.refresh()
    await reader.mirror.refresh()
    await plane.write(KEYS, "two")
    await reader.match(KEYS, instance_id="two")
    assert at_once(reader, KEYS, name="two") is None
    await plane.write(KEYS)
    await reader.match(KEYS)
    assert at_once(reader, KEYS) is not None
    policy = replace(settings.cache_policy, capacity_mb=0)
    plane.publish(3, group(meta_indexer=replace(settings, cache_policy=policy)))
    await reader.mirror.refresh()
    assert at_once(reader, KEYS) is None


@given(st.text(max_size=300))
def test_the_short_header_is_the_message(text):
    answer = pb.GetCacheLocationResponse.FromString(mapping.ok_head(text))
    assert answer == pb.GetCacheLocationResponse(header=mapping.header(text))
    assert (
        mapping.ok_head("x" * 70_000)
        == pb.CommonResponse(header=mapping.header("x" * 70_000)).SerializeToString()
    )


@pytest.mark.parametrize("count", [0, 1, mapping.FEW_KEYS, mapping.FEW_KEYS + 1, 5000])
def test_keys_as_bytes(count):
    keys = [(-1) ** n * n << 40 for n in range(count)]
    request = pb.GetCacheLocationRequest(block_keys=keys)
    assert mapping.raw_keys(request.block_keys) == struct.pack(f"={count}q", *keys)


def handlers(plane: DataPlane, mode: str = "open") -> MetaHandlers:
    access = MetaAccess(mode, "10.0.0.0/8", "internal", plane.index.connection)
    return handlers_of(plane, access)


def question(**changes: object) -> pb.GetCacheLocationRequest:
    plain = {"trace_id": "t", "instance_id": "model-a", "query_type": pb.QT_PREFIX_MATCH, "block_keys": KEYS}
    return pb.GetCacheLocationRequest(**{**plain, **changes})


async def test_the_handler_answers_what_its_call_answers(plane, reader):
    await plane.write(KEYS)
    served = handlers(reader)
    rpc, caller = served.rpcs["GetCacheLocation"], Caller("127.0.0.1")
    for request in (question(), question(block_mask=pb.BlockMask(offset=0)), question(block_keys=KEYS[:1])):
        usual = pb.GetCacheLocationResponse.FromString(await served.call(rpc, request, caller))
        answer = pb.GetCacheLocationResponse.FromString(served.at_once(rpc, request, caller))
        assert answer.locations == usual.locations
        assert (answer.header.status, answer.header.request_id[:2]) == (usual.header.status, "t_")
    for request in (
        question(query_type=pb.QT_BATCH_GET),
        question(block_keys=[], token_ids=KEYS),
        question(location_spec_names=["tp0"]),
        question(block_mask=pb.BlockMask(bool_masks=pb.BoolMasksType(values=[True]))),
        question(block_mask=pb.BlockMask()),
        question(trace_id="t" + SPAN_SUFFIX),
    ):
        await served.call(rpc, request, caller)
        assert served.at_once(rpc, request, caller) is None
    served.stand_down.set(60_000)
    assert served.at_once(rpc, question(), caller) is None


async def test_both_ways_count_latency_for_the_instance(plane, reader):
    await plane.write(KEYS)
    served = handlers(reader)
    rpc, caller = served.rpcs["GetCacheLocation"], Caller("127.0.0.1")
    await served.call(rpc, question(), caller)
    assert served.at_once(rpc, question(), caller) is not None
    await served.call(rpc, question(instance_id="nobody"), caller)  # an id that anybody may make up
    started = pb.StartWriteCacheRequest(trace_id="t", instance_id="model-a", block_keys=[7])
    await served.call(served.rpcs["StartWriteCache"], started, caller)
    flush = reader.facts.take()[0]
    latencies = decode({b"d": str(flush[-1]).encode()}).latencies
    assert {
        (name, timed): sum(calls) for name, kinds in latencies.items() for timed, calls in kinds.items()
    } == {("model-a", "read"): 2, ("model-a", "write"): 1}


@pytest.mark.parametrize(
    ("mode", "caller", "token", "is_free"),
    [
        ("network", Caller("10.1.2.3"), None, True),
        ("network", Caller("11.1.2.3"), None, False),
        ("token", Caller("10.1.2.3"), None, False),
        ("token", Caller("10.1.2.3", "Bearer a"), b"{}", True),
        ("token", Caller("10.1.2.3", "Basic a"), b"{}", False),
        ("token", Caller("10.1.2.3", "Bearer a"), b'{"groups": ["default"]}', False),
        ("token", Caller("10.1.2.3", "Bearer a"), b'{"expires_at": 1}', False),
    ],
)
async def test_only_who_may_do_everything(plane, reader, mode, caller, token, is_free):
    await plane.write(KEYS)
    await reader.match(KEYS)
    served = handlers(reader, mode)
    rpc = served.rpcs["GetCacheLocation"]
    if token is not None:
        plane.client.hset(keyspace.TOKENS, hashlib.sha256(b"a").hexdigest(), token)
        assert served.at_once(rpc, question(), caller) is None  # not known yet
    with contextlib.suppress(DomainError):
        await served.call(rpc, question(), caller)
    assert (served.at_once(rpc, question(), caller) is not None) == is_free
