"""What a flush says, read back as whoever tails the stream reads it."""

from __future__ import annotations

import json

from kvcm_platform.index.facts import COUNTER_NAMES, FactsBuffer, decode


def flushed(buffer: FactsBuffer):
    command = buffer.take()[0]
    return decode({b"d": str(command[-1]).encode()})


def test_latencies_are_kept_by_instance_and_kind() -> None:
    buffer = FactsBuffer("here:1")
    buffer.rpc("GetCacheLocation", 0.00003, False, "read", "a")
    buffer.rpc("GetCacheLocation", 0.00015, False, "read", "a")
    buffer.rpc("GetCacheLocation", 0.00015, False, "read", "b")
    buffer.rpc("StartWriteCache", 99.0, False, "write", "a")
    buffer.rpc("GetCacheLocation", 0.00015, True)
    facts = flushed(buffer)
    # 30 µs are within 50, 150 within 200; 99 s are beyond the last bound, 14 buckets up.
    assert facts.latencies == {
        "a": {"read": [1, 0, 1], "write": [0] * 14 + [1]},
        "b": {"read": [0, 0, 1]},
    }
    assert (facts.rpcs["GetCacheLocation"].count, facts.rpcs["GetCacheLocation"].errors) == (4, 1)


def test_a_flush_begins_anew() -> None:
    buffer = FactsBuffer("here:1")
    buffer.rpc("GetCacheLocation", 0.00003, False, "read", "a")
    flushed(buffer)
    assert buffer.take() == []
    buffer.add("a", requests=1)
    assert flushed(buffer).latencies == {}


def test_entries_of_earlier_versions_are_read() -> None:
    old = {"process": "p", "at": 1, "window_ms": 200, "rpc": {}, "instances": {"a": {"requests": 1}}}
    facts = decode({b"d": json.dumps(old).encode()})
    assert (facts.latencies, facts.groups) == ({}, {})
    assert facts.instances["a"].get(COUNTER_NAMES[1], 0) == 0
