"""Replays against a small service: exact counts, real bytes, restarts in the middle."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

from kvcm_platform.client.load.replay import Replay, ReplayError, ReplayOptions
from kvcm_platform.client.load.report import Report
from kvcm_platform.core.traces import TraceRequest

from .fake_meta import FakeMeta, serve

BLOCK_BYTES = 256


def trace(count: int, seed: int = 1) -> list[TraceRequest]:
    """Prompts that share prefixes: chains down a random tree."""
    dice = random.Random(seed)
    requests = []
    for number in range(count):
        key, keys = 1, []
        for _ in range(dice.randint(1, 12)):
            key = key * 3 + dice.randint(0, 2)
            keys.append(key)
        requests.append(TraceRequest(number * 0.01, keys, 512 * len(keys), 10))
    return requests


def model(requests: list[TraceRequest]) -> tuple[int, int, int]:
    """(asked, hit, distinct) blocks of an endless cache."""
    seen: set[int] = set()
    asked = hit = 0
    for request in requests:
        asked += len(request.block_keys)
        for key in request.block_keys:
            if key not in seen:
                break
            hit += 1
        seen.update(request.block_keys)
    return asked, hit, len(seen)


def options(endpoint: str, **changes: Any) -> ReplayOptions:
    given = {"instance_group": "default", "instance_id": "i", "block_tokens": 512, "block_bytes": BLOCK_BYTES}
    return ReplayOptions(endpoint=endpoint, **{**given, **changes})


def replay(endpoint: str, requests: list[TraceRequest], **changes: Any) -> Report:
    return Replay(options(endpoint, **changes), iter(requests)).run()


def test_one_engine_counts_what_the_model_counts(endpoint: str, service: FakeMeta) -> None:
    requests = trace(300)
    asked, hit, distinct = model(requests)
    report = replay(endpoint, requests)
    assert (report.requests, report.blocks, report.hit_blocks) == (300, asked, hit)
    assert report.written_blocks == distinct == len(service.serving)
    assert (report.errors, report.write_refused, report.bytes_written) == (0, 0, 0)
    assert service.last["RegisterInstance"].location_spec_infos[0].size == BLOCK_BYTES


def test_every_hit_block_is_read_and_compared(endpoint: str, tmp_path: Path) -> None:
    requests = trace(200)
    _, hit, distinct = model(requests)
    report = replay(endpoint, requests, with_data=True, data_root=tmp_path)
    assert report.bytes_written == distinct * BLOCK_BYTES
    assert report.bytes_read == hit * BLOCK_BYTES
    assert report.bytes_wrong == 0


def test_wrong_and_missing_bytes_are_counted(endpoint: str, service: FakeMeta) -> None:
    request = TraceRequest(0.0, [11, 12, 13, 14, 15], 1, 1)
    replay(endpoint, [request], with_data=True)
    first, second = sorted(service.root.rglob("s1_*"))
    content = bytearray(first.read_bytes())
    content[BLOCK_BYTES + 3] ^= 0xFF
    content[BLOCK_BYTES + 9] ^= 0x01
    content[3 * BLOCK_BYTES :] = bytes(BLOCK_BYTES)
    first.write_bytes(content)
    zeroed = BLOCK_BYTES - _zero_bytes(14)
    second.unlink()
    report = replay(endpoint, [request], with_data=True)
    assert report.bytes_wrong == 2 + zeroed
    assert report.bytes_read == 4 * BLOCK_BYTES
    assert report.failed_reads == 1


def _zero_bytes(key: int) -> int:
    from kvcm_platform.transfer import BlockPattern

    return BlockPattern("i", "tp0", BLOCK_BYTES).block(key).count(0)


def test_engines_share_the_trace(endpoint: str, service: FakeMeta) -> None:
    requests = trace(400)
    done = []
    report = Replay(
        options(endpoint, engines=8, with_data=True), iter(requests), on_request=lambda: done.append(1)
    ).run()
    assert report.requests == len(done) == 400
    assert service.calls["StartWriteCache"] == service.calls["FinishWriteCache"] == 400
    assert service.calls["RegisterInstance"] == 1
    assert (report.errors, report.bytes_wrong) == (0, 0)
    assert len(service.serving) == model(requests)[2]


def test_refused_writes_are_counted_and_the_replay_goes_on(endpoint: str, service: FakeMeta) -> None:
    service.max_blocks = 20
    report = replay(endpoint, trace(50))
    assert report.requests == 50
    assert report.write_refused > 0
    assert report.errors == 0
    assert report.written_blocks == len(service.serving) <= 20


def test_blocks_that_cannot_be_written_are_reported_as_failed(
    endpoint: str, service: FakeMeta, tmp_path: Path
) -> None:
    report = replay(endpoint, trace(1), with_data=True, data_root=tmp_path / "elsewhere")
    assert report.written_blocks == 0
    assert report.errors == service.last["StartWriteCache"].block_keys.__len__()
    assert not service.serving


def test_speed_keeps_the_times_of_the_trace(endpoint: str) -> None:
    requests = [TraceRequest(100 + at, [1], 1, 1) for at in (0.0, 0.5, 1.0)]
    report = replay(endpoint, requests, speed=2.0, engines=2)
    assert 0.5 <= report.seconds < 20


def test_an_empty_prompt_makes_no_call(endpoint: str, service: FakeMeta) -> None:
    report = replay(endpoint, [TraceRequest(0.0, [], 3, 1)])
    assert (report.requests, report.blocks, report.hit_rate) == (1, 0, 0.0)
    assert service.calls["GetCacheLocation"] == 0


class TestRestarts:
    def test_only_calls_in_flight_fail(self, service: FakeMeta) -> None:
        requests = trace(1500)
        reached = threading.Event()
        done = 0

        def count() -> None:
            nonlocal done
            done += 1
            if done == 300:
                reached.set()

        result: list[Report] = []
        with serve(service) as port:
            run = Replay(
                options(f"127.0.0.1:{port}", engines=4, with_data=True), iter(requests), on_request=count
            )
            thread = threading.Thread(target=lambda: result.append(run.run()))
            thread.start()
            assert reached.wait(30)
            service.read_delay_seconds = 0.5
            time.sleep(0.2)
        service.read_delay_seconds = 0.0
        time.sleep(0.5)
        with serve(service, port):
            thread.join(60)
        report = result[0]
        assert report.requests == 1500
        assert 1 <= report.errors <= 4
        assert report.bytes_wrong == 0
        assert len(service.serving) >= model(requests)[2] - 4 * 12

    def test_a_server_that_is_not_ready_costs_one_error(self, endpoint: str, service: FakeMeta) -> None:
        service.not_ready_next = 3
        report = replay(endpoint, trace(5))
        assert (report.requests, report.errors) == (5, 1)
        assert report.blocks == model(trace(5))[0]
        assert report.written_blocks == len(service.serving)

    def test_patience_ends(self, endpoint: str, service: FakeMeta) -> None:
        service.not_ready_next = 10**9
        started = time.monotonic()
        with pytest.raises(ReplayError, match="no answer for") as caught:
            replay(endpoint, trace(5), patience_seconds=0.3)
        assert time.monotonic() - started < 20
        assert caught.value.report.requests == 1

    def test_a_closed_door_ends_the_replay_at_once(self, endpoint: str, service: FakeMeta) -> None:
        service.abort_with = grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(ReplayError, match="UNAUTHENTICATED"):
            replay(endpoint, trace(5))
        assert sum(service.calls.values()) == 1

    def test_a_refused_call_costs_its_prompt_only(self, endpoint: str, service: FakeMeta) -> None:
        failed: list[str] = []

        def forget() -> None:
            service.instances.clear()

        run = Replay(
            options(endpoint),
            iter(trace(3)),
            on_request=forget,
            on_error=lambda rpc, error: failed.append(f"{rpc} {error.code}"),
        )
        report = run.run()
        assert (report.requests, report.errors) == (3, 2)
        assert failed == ["StartWriteCache INSTANCE_NOT_EXIST"] * 2

    def test_stop_ends_it_after_the_prompt_under_way(self, endpoint: str) -> None:
        requests = trace(5)
        run = Replay(options(endpoint), iter(requests), on_request=lambda: run.stop())
        assert run.run().requests == 1


class TestReport:
    def test_members_are_those_of_the_interface(self) -> None:
        report = Report(requests=2, blocks=8, hit_blocks=2, seconds=1.23456)
        report.latencies["GetCacheLocation"].extend([0.001] * 98 + [0.5, 0.7])
        assert report.to_dict() == {
            "requests": 2,
            "blocks": 8,
            "hit_blocks": 2,
            "hit_rate": 0.25,
            "written_blocks": 0,
            "write_refused": 0,
            "errors": 0,
            "bytes_written": 0,
            "bytes_read": 0,
            "bytes_wrong": 0,
            "failed_reads": 0,
            "seconds": 1.235,
            "rpc": {"GetCacheLocation": {"count": 100, "p50_ms": 1.0, "p99_ms": 500.0, "max_ms": 700.0}},
        }
        text = report.to_text()
        for name in report.to_dict():
            assert name == "rpc" or name in text
        assert "GetCacheLocation" in text

    def test_adding(self) -> None:
        first, second = Report(requests=1, errors=2, seconds=5.0), Report(requests=10, seconds=7.0)
        second.latencies["A"].append(1.0)
        first.add(second)
        assert (first.requests, first.errors, first.seconds) == (11, 2, 5.0)
        assert list(first.latencies["A"]) == [1.0]
