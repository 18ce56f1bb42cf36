"""Captures of live traffic: from a request over the calls of a metadata process to a trace that is ready."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable

import pytest
import redis
import zstandard

from apps.audit.models import AuditEntry
from apps.common.actor import Actor, Role
from apps.optimizer_reports.choices import TraceState
from apps.optimizer_reports.folders import columns_folder
from apps.optimizer_reports.models import OptimizerTrace
from apps.optimizer_reports.services import capture_file, live_captures, optimizer_work
from apps.optimizer_reports.services.live_captures import (
    SETTLE_MS,
    capture_begin,
    capture_end,
    captures_follow,
)
from kvcm_platform.core.errors import DomainError
from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.index import keyspace, request_switches
from kvcm_platform.index.capture_files import held
from kvcm_platform.index.request_log import RequestLog
from kvcm_platform.optimizer.traces import open_trace
from tests.apps.conftest import Api
from tests.factories.actors import ADMIN, OPERATOR
from tests.factories.objects import make_group, make_instance, make_storage

pytestmark = pytest.mark.django_db
URL = "/api/v1/optimizer/traces/"
NOW = 1_800_000_000_000


class Calls:
    """A metadata process that answers calls: its log, and a connection that is redis-py's."""

    def __init__(self, client: redis.Redis, owner: InstanceEntry, process: str = "metadata:a:1") -> None:
        self.log = RequestLog(process)
        self.client, self.owner = client, owner
        self.follow()

    def follow(self, now_ms: int = NOW) -> None:
        self.log.follow(request_switches.read_blocking(self.client), now_ms)

    async def pipeline(self, commands: Iterable[tuple]) -> list:
        return [self.client.execute_command(*command) for command in commands]

    def turn(self, keys: list[int], hits: int = 0, session: str = "s") -> None:
        """A lookup, and the write of what was missing."""
        if self.log.is_open:
            self.log.query(self.owner, 2, keys, None, hits)
            self.log.start(self.owner, session, keys, hits)
            self.log.finish(self.owner, session, len(keys) - hits)

    def flush(self) -> None:
        asyncio.run(self.log.flush(self))  # type: ignore[arg-type]


@pytest.fixture
def owner(index, tmp_path, sent) -> InstanceEntry:
    make_storage(tmp_path)
    make_group()
    return make_instance()


def begin(index: redis.Redis, seconds: int = 60, **more) -> OptimizerTrace:
    wish = {"acting": OPERATOR, "client": index, "instance_ids": ["model-a"], "now_ms": NOW}
    return capture_begin(**{**wish, "seconds": seconds, **more})


def text_of(trace: OptimizerTrace) -> list[dict]:
    with capture_file(trace).open("rb") as file:
        text = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()
    return [json.loads(line) for line in text.splitlines()]


def over(trace: OptimizerTrace, index: redis.Redis) -> OptimizerTrace:
    """The capture after the round that ends it."""
    captures_follow(client=index, now_ms=NOW + 60_000 + SETTLE_MS)
    trace.refresh_from_db()
    return trace


def test_from_calls_to_a_trace_that_is_ready(index, owner, api: Api, jobs_here):
    client = api()
    wish = {"name": "live", "instances": ["model-a", "model-a"], "seconds": 60}
    answer = client.post(f"{URL}capture/", wish, format="json").json()
    assert (answer["state"], answer["source"], answer["groups"]) == ("capturing", "capture", ["chat"])
    calls = Calls(index, owner)
    calls.follow(0)
    calls.turn([1, 2, 3])
    calls.turn([1, 2, 3, 4], hits=3, session="t")
    calls.flush()
    assert captures_follow(client=index) == {"captures": 1, "events": 6}
    shown = client.get(f"{URL}{answer['id']}/").json()
    assert shown["state"] == "capturing" and shown["capture"]["events"] == 6 and 0 <= shown["progress"] < 0.5
    assert "state" not in shown["capture"] and shown["file_bytes"] == os.path.getsize(
        capture_file(OptimizerTrace.objects.get())
    )
    assert client.delete(f"{URL}{answer['id']}/").json()["code"] == "in_use"
    assert client.post(f"{URL}{answer['id']}/end-capture/").status_code == 200
    trace = OptimizerTrace.objects.get()
    captures_follow(client=index, now_ms=trace.capture["until_ms"] + SETTLE_MS)
    optimizer_work()
    shown = client.get(f"{URL}{answer['id']}/").json()
    assert (shown["state"], shown["format"], shown["capture"]["end"]) == ("ready", "capture", "request")
    assert (shown["requests"], shown["blocks"], shown["distinct_blocks"]) == (2, 7, 4)
    assert shown["instances"][0]["block_bytes"] == 2048 and shown["instances"][0]["block_tokens"] == 16
    columns = open_trace(columns_folder(trace.folder))
    assert columns.key[columns.path].tolist() == [1, 2, 3, 1, 2, 3, 4]
    assert columns.header.instances[0].group == "chat"
    assert client.post(f"{URL}{answer['id']}/end-capture/").status_code == 409
    assert not index.exists(keyspace.captured_requests(trace.folder))
    assert not request_switches.read_blocking(index).captures
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"trace.capture", "trace.end_capture", "trace.captured"} <= actions


def test_it_ends_by_its_time(index, owner):
    trace = begin(index)
    calls = Calls(index, owner)
    calls.turn([1, 2])
    calls.flush()
    captures_follow(client=index, now_ms=NOW + 59_000)
    calls.follow(NOW + 60_000)
    assert not calls.log.is_open
    captures_follow(client=index, now_ms=NOW + 60_000)
    trace.refresh_from_db()
    assert trace.state == TraceState.CAPTURING
    assert over(trace, index).state == TraceState.RECEIVED and trace.capture["end"] == "time"
    assert captures_follow(client=index, now_ms=NOW + 70_000) == {"captures": 0, "events": 0}


def test_it_ends_by_its_size(index, owner, monkeypatch):
    monkeypatch.setattr(live_captures, "LEAST_BYTES", 1)
    trace = begin(index, max_bytes=300)
    calls = Calls(index, owner)
    calls.turn(list(range(200)))
    calls.flush()
    captures_follow(client=index, now_ms=NOW + 1000)
    trace.refresh_from_db()
    assert trace.state == TraceState.RECEIVED and trace.capture["end"] == "size"
    assert trace.capture["events"] == 3 and trace.file_bytes >= 300


def test_one_without_calls_fails_and_says_so(index, owner):
    trace = over(begin(index), index)
    assert trace.state == TraceState.FAILED and "no call" in trace.reason


def test_a_killed_writer_is_carried_on(index, owner, monkeypatch):
    """Killed between the append and its note, or between the note and anything else."""
    trace = begin(index)
    calls = Calls(index, owner)
    calls.turn([1, 2])
    calls.flush()

    def killed(**_: object) -> bool:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(live_captures, "capture_row_note", killed)
        with pytest.raises(RuntimeError):
            captures_follow(client=index, now_ms=NOW + 1000)
    assert os.path.getsize(capture_file(trace)) > 0
    calls.turn([1, 2, 3])
    calls.flush()
    captures_follow(client=index, now_ms=NOW + 2000)
    with monkeypatch.context() as patch:
        patch.setattr(live_captures, "capture_row_end", killed)
        with pytest.raises(RuntimeError):
            captures_follow(client=index, now_ms=NOW + 60_000 + SETTLE_MS)
    assert over(trace, index).state == TraceState.RECEIVED
    lines = text_of(trace)
    assert (
        lines[0]["kvcm_capture"] == 1
        and [line["type"] for line in lines[1:]]
        == [
            "GetCacheLocation",
            "StartWriteCache",
            "FinishWriteCache",
        ]
        * 2
    )
    assert trace.capture["events"] == 6 and os.path.getsize(capture_file(trace)) == trace.file_bytes


def test_one_writer_at_a_time(index, owner):
    trace = begin(index)
    with held(capture_file(trace)):
        captures_follow(client=index, now_ms=NOW + 60_000 + SETTLE_MS)
    trace.refresh_from_db()
    assert trace.state == TraceState.CAPTURING


def test_a_lost_switch_is_set_again_and_lost_events_are_counted(index, owner):
    trace = begin(index)
    index.delete(keyspace.REQUEST_SWITCHES)
    captures_follow(client=index, now_ms=NOW + 1000)
    calls = Calls(index, owner)
    assert calls.log.is_open
    calls.turn([1])
    calls.flush()
    index.xtrim(keyspace.captured_requests(trace.folder), maxlen=0, approximate=False)
    calls.turn([1])
    calls.flush()
    assert over(trace, index).capture["lost_events"] == 3 and trace.capture["events"] == 3


def test_a_file_that_is_gone_ends_it(index, owner):
    trace = begin(index)
    calls = Calls(index, owner)
    calls.turn([1])
    calls.flush()
    captures_follow(client=index, now_ms=NOW + 1000)
    capture_file(trace).write_bytes(b"")
    calls.turn([2])
    calls.flush()
    captures_follow(client=index, now_ms=NOW + 2000)
    trace.refresh_from_db()
    assert trace.state == TraceState.FAILED and "damaged" in trace.reason


def test_a_disk_that_is_full_is_waited_for(index, owner, monkeypatch):
    trace = begin(index)
    Calls(index, owner).turn([1])

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(live_captures, "append", full)
    captures_follow(client=index, now_ms=NOW + 1000)
    trace.refresh_from_db()
    assert trace.state == TraceState.CAPTURING
    captures_follow(client=index, now_ms=NOW + 60_000 + live_captures.GIVE_UP_MS + 1)
    trace.refresh_from_db()
    assert trace.state == TraceState.FAILED and "No space" in trace.reason


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"seconds": 0}, "seconds"),
        ({"seconds": 86_401}, "seconds"),
        ({"max_bytes": 1}, "max_bytes"),
        ({"instance_ids": []}, "instances"),
        ({"instance_ids": ["nobody"]}, "instance_id"),
        ({"name": "x" * 129}, "name"),
    ],
)
def test_bad_wishes(index, owner, change, field):
    with pytest.raises(DomainError) as refused:
        begin(index, **change)
    assert refused.value.field == field
    assert not OptimizerTrace.objects.exists()


def test_who_may_and_how_many(index, owner, api: Api, monkeypatch):
    wish = {"instances": ["model-a"], "seconds": 5}
    assert api(Role.VIEWER).post(f"{URL}capture/", wish, format="json").status_code == 403
    assert api(Role.OPERATOR, {"code"}).post(f"{URL}capture/", wish, format="json").status_code == 404
    assert api().post(f"{URL}capture/", {**wish, "minutes": 3}, format="json").json()["field"] == "minutes"
    trace = begin(index)
    other = Actor("o", Role.OPERATOR, groups=frozenset({"code"}))
    with pytest.raises(DomainError):
        capture_end(acting=other, trace_id=trace.pk)
    monkeypatch.setattr(live_captures, "MOST_AT_ONCE", 1)
    with pytest.raises(DomainError, match="the most at a time"):
        begin(index)
    # Without Redis it begins with the next round.
    monkeypatch.setattr(live_captures, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(live_captures.request_switches, "set_capture", _unreachable)
    assert begin(index, acting=ADMIN).state == TraceState.CAPTURING


def _unreachable(*_: object) -> None:
    raise redis.ConnectionError("away")
