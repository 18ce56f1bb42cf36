"""Traces over REST: uploaded, read by a process of their own, named, read anew, deleted."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import BinaryIO

import pytest
from django.db import transaction
from django.utils import timezone

from apps.audit.models import AuditEntry, Event
from apps.common.actor import Role
from apps.optimizer_reports.api import uploads
from apps.optimizer_reports.models import OptimizerJob, OptimizerTrace
from apps.optimizer_reports.services import capture_file, capture_row_begin, capture_row_end, capture_row_note
from apps.optimizer_reports.services.reading import trace_fail
from apps.optimizer_reports.services.upkeep import SWEPT_AFTER_SECONDS, folders_sweep, optimizer_resume
from kvcm_platform.core.errors import CODES, Code
from tests.apps.conftest import Api
from tests.factories.actors import OPERATOR
from tests.support.optimizer_jobs import mooncake_lines, ready_trace, upload, work

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("jobs_here")]
URL = "/api/v1/optimizer/traces/"
CHAINS = [[1, 2, 3], [1, 2, 4], [5], [1, 2, 3]]


def folders(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "traces").glob("*"))


def test_an_upload_is_stored_read_and_described(api: Api, sent: list[str], optimizer_folder: Path) -> None:
    client = api()
    content = gzip.compress(mooncake_lines(CHAINS))
    answer = upload(client, content, name="day.jsonl.gz", note="a day", block_bytes="65536")
    assert answer.status_code == 201
    assert answer.data["state"] == "received" and answer.data["name"] == "day.jsonl.gz"
    assert answer.data["sha256"] == hashlib.sha256(content).hexdigest()
    assert sent == ["apps.optimizer_reports.tasks.run_optimizer"]

    assert work().done == 1
    trace = client.get(f"{URL}{answer.data['id']}/").data
    assert (trace["state"], trace["progress"], trace["format"]) == ("ready", 1.0, "mooncake")
    assert (trace["requests"], trace["blocks"], trace["distinct_blocks"]) == (4, 10, 5)
    assert (trace["span_seconds"], trace["input_tokens"]) == (3.0, 5120)
    assert trace["instances"][0] | {"instance_id": ""} == {
        "instance_id": "",
        "group": "",
        "block_tokens": 512,
        "block_bytes": 65536,
        "requests": 4,
        "blocks": 10,
        "input_tokens": 5120,
    }
    assert trace["has_only_turns"] and trace["bad_line_count"] == 0
    assert trace["stored_bytes"] > trace["file_bytes"] == len(content)
    row = OptimizerTrace.objects.get()
    assert folders(optimizer_folder) == [row.folder]
    assert AuditEntry.objects.filter(action="trace.upload", object_name="day.jsonl.gz").count() == 1

    listed = client.get(URL, {"search": "day", "state": "ready", "ordering": "-blocks"}).data
    assert [found["id"] for found in listed["results"]] == [trace["id"]]
    assert client.get(URL, {"state": "failed"}).data["count"] == 0


def test_what_came_can_be_downloaded_again(api: Api, sent: list[str]) -> None:
    client = api()
    content = mooncake_lines(CHAINS)
    trace = ready_trace(client, content, name="näme.jsonl")
    answer = client.get(f"{URL}{trace['id']}/source/")
    assert b"".join(answer) == content
    assert int(answer["Content-Length"]) == len(content)
    parquet = b"".join(client.get(f"{URL}{trace['id']}/parquet/"))
    again = ready_trace(client, parquet, name="again.parquet")
    assert again["format"] == "parquet"
    same = ("requests", "blocks", "distinct_blocks", "span_seconds", "input_tokens")
    assert [again[name] for name in same] == [trace[name] for name in same]


def test_a_source_that_cannot_be_read_says_why_and_can_be_read_otherwise(api: Api, sent: list[str]) -> None:
    client = api()
    made = upload(client, b"not a trace\n").data
    assert work().failed == 1
    trace = client.get(f"{URL}{made['id']}/").data
    assert trace["state"] == "failed" and "format" in trace["reason"]
    event = Event.objects.get(kind="trace.failed")
    assert "trace.jsonl" in event.message and event.severity == "warning"

    answer = client.post(f"{URL}{made['id']}/read/", {"format": "mooncake", "max_bad_lines": 0})
    assert answer.data["state"] == "received" and answer.data["reason"] == ""
    work()
    trace = client.get(f"{URL}{made['id']}/").data
    assert trace["state"] == "failed" and "1" in trace["reason"]


def test_an_event_log_is_read_as_reads_and_writes_or_as_turns(api: Api, sent: list[str]) -> None:
    common = {"source": "qwen", "keys": [1, 2], "block_mask": 0}
    get = {**common, "type": "GetCacheLocation", "trigger_time_us": 10**15, "query_type": "prefix_match"}
    start = {**common, "type": "StartWriteCache", "trigger_time_us": 10**15 + 1, "write_session_id": "a"}
    log = b"\n".join(json.dumps(event).encode() for event in (get, start))
    client = api()
    trace = ready_trace(client, log)
    assert (trace["format"], trace["requests"], trace["has_only_turns"]) == ("publisher_log", 2, False)
    client.post(f"{URL}{trace['id']}/read/", {"as_turns": True})
    work()
    trace = client.get(f"{URL}{trace['id']}/").data
    assert (trace["requests"], trace["blocks"], trace["has_only_turns"]) == (1, 2, True)


def test_the_first_bad_line_is_told(api: Api, sent: list[str]) -> None:
    lines = mooncake_lines(CHAINS).splitlines(keepends=True)
    client = api()
    trace = ready_trace(client, b"".join([*lines[:2], b"{broken\n", *lines[2:]]))
    assert (trace["requests"], trace["bad_line_count"]) == (4, 1)
    assert trace["first_bad_line"]["number"] == 3 and trace["first_bad_line"]["reason"]


def test_uploads_that_are_refused_leave_nothing(
    api: Api, sent: list[str], settings, optimizer_folder: Path
) -> None:
    client = api()
    content = mooncake_lines(CHAINS)
    settings.KVCM_TRACE_UPLOAD_BYTES = 100
    answer = upload(client, content)
    assert (answer.status_code, answer.data["code"], answer.data["field"]) == (
        413,
        "request_too_large",
        "file",
    )
    settings.KVCM_TRACE_UPLOAD_BYTES = 1 << 20
    for fields, field in (
        ({"format": "nothing"}, "format"),
        ({"block_tokens": "-1"}, "block_tokens"),
        ({"nonsense": "1"}, "nonsense"),
    ):
        answer = upload(client, content, **fields)
        assert (answer.status_code, answer.data["field"]) == (400, field)
    assert upload(client, b"").data["field"] == "file"
    assert client.post(URL, {"name": "x"}, format="multipart").data["field"] == "file"
    settings.KVCM_TRACES_BYTES = 100
    assert upload(client, content).data["code"] == "reach_max_entity_capacity"
    assert upload(api(Role.VIEWER), content).status_code == 403
    assert upload(api(None), content).status_code == 401
    assert folders(optimizer_folder) == [] and not OptimizerTrace.objects.exists()


def test_a_body_beyond_any_limit_is_not_read(api: Api, settings) -> None:
    settings.KVCM_LARGE_BODIES = {"/api/v1/optimizer/traces": 100}
    answer = upload(api(), mooncake_lines(CHAINS))
    assert (answer.status_code, answer.json()["code"]) == (413, "request_too_large")


def test_a_generated_trace(api: Api, sent: list[str]) -> None:
    client = api()
    answer = client.post(f"{URL}generate/", {"requests": 300, "seed": 5, "instances": 2})
    assert answer.status_code == 201 and answer.data["source"] == "generated"
    work()
    trace = client.get(f"{URL}{answer.data['id']}/").data
    assert (trace["state"], trace["requests"], len(trace["instances"])) == ("ready", 300, 2)
    assert client.post(f"{URL}generate/", {"requests": 0}).data["field"] == "requests"
    again = client.post(f"{URL}{trace['id']}/read/", {}).data
    work()
    assert client.get(f"{URL}{again['id']}/").data["blocks"] == trace["blocks"]


def test_names_and_notes(api: Api, sent: list[str]) -> None:
    client = api()
    made = upload(client, mooncake_lines(CHAINS)).data
    answer = client.patch(f"{URL}{made['id']}/", {"name": "monday", "note": "n"})
    assert (answer.data["name"], answer.data["note"]) == ("monday", "n")
    assert client.patch(f"{URL}{made['id']}/", {"name": ""}).data["field"] == "name"
    assert api(Role.VIEWER).patch(f"{URL}{made['id']}/", {"name": "x"}).status_code == 403


def test_a_deleted_trace_takes_its_files_along(api: Api, sent: list[str], optimizer_folder: Path) -> None:
    client = api()
    read = ready_trace(client, mooncake_lines(CHAINS))
    unread = upload(client, mooncake_lines(CHAINS)).data
    assert len(folders(optimizer_folder)) == 2
    for trace in (read, unread):
        assert client.delete(f"{URL}{trace['id']}/").status_code == 204
    assert folders(optimizer_folder) == [] and not OptimizerJob.objects.exists()
    assert work().done == 0
    assert client.get(f"{URL}{read['id']}/").status_code == 404


def test_files_of_no_trace_are_swept_when_they_are_old(optimizer_folder: Path, api: Api, sent) -> None:
    kept = upload(api(), mooncake_lines(CHAINS)).data
    left = optimizer_folder / "traces" / "00112233445566ff"
    left.mkdir()
    (left / "source").write_bytes(b"x")
    now = (left / "source").stat().st_mtime
    assert folders_sweep(now=now + SWEPT_AFTER_SECONDS - 5) == 0
    assert folders_sweep(now=now + SWEPT_AFTER_SECONDS + 5) == 1
    assert folders(optimizer_folder) == [OptimizerTrace.objects.get(pk=kept["id"]).folder]


def test_accounts_of_some_groups_see_traces_of_these_alone(api: Api, sent: list[str]) -> None:
    everybody, chat, both = api(), api(groups=["chat"]), api(groups=["chat", "code"])
    upload(everybody, mooncake_lines(CHAINS), name="all")
    upload(chat, mooncake_lines(CHAINS), name="chat")
    upload(both, mooncake_lines(CHAINS), name="both")

    def names(client) -> list[str]:
        return [row["name"] for row in client.get(URL).data["results"]]

    assert names(everybody) == ["both", "chat", "all"]
    assert names(chat) == ["chat"]
    assert names(both) == ["both", "chat"]
    hidden = OptimizerTrace.objects.get(name="both").pk
    assert chat.get(f"{URL}{hidden}/").status_code == 404
    assert chat.delete(f"{URL}{hidden}/").status_code == 404


def test_what_is_of_no_group_is_nobodys(api: Api, sent: list[str], optimizer_folder: Path) -> None:
    answer = upload(api(groups=[]), mooncake_lines(CHAINS))
    assert (answer.status_code, answer.data["code"]) == (403, "permission_denied")
    assert folders(optimizer_folder) == []
    row = {"name": "old", "source": "upload", "folder": "0" * 16, "added_by": "x", "added_at": timezone.now()}
    OptimizerTrace.objects.create(**row, is_of_all_groups=False)
    assert [api(groups=names).get(URL).data["count"] for names in (["chat"], [], None)] == [0, 0, 1]


def test_names_that_no_database_keeps(api: Api, sent: list[str]) -> None:
    row = {"chat_id": 1, "parent_chat_id": -1, "timestamp": 0, "input_length": 16, "output_length": 1}
    line = json.dumps({**row, "turn": 1, "hash_ids": [1], "type": "a\0b"}).encode()
    trace = ready_trace(api(), line + b"\n", format="bailian")
    detail = api().get(f"{URL}{trace['id']}/").data
    assert [row["name"] for row in detail["types"]] == ["a\ufffdb"]
    row = OptimizerTrace.objects.get()
    with transaction.atomic():
        trace_fail(row.pk, "instance \ud800 \0")
    row.refresh_from_db()
    assert row.reason == "instance \ufffd\ufffd\ufffd \ufffd" and "\0" not in Event.objects.get().message


def test_what_unpacks_to_more_than_there_is_room_for_is_not_read(
    api: Api, sent: list[str], settings, optimizer_folder: Path
) -> None:
    client = api()
    content = gzip.compress(mooncake_lines(CHAINS) * 5000)
    settings.KVCM_TRACES_BYTES = 1 << 20
    bomb = upload(client, content).data["id"]
    work()
    trace = client.get(f"{URL}{bomb}/").data
    assert (trace["state"], trace["stored_bytes"]) == ("failed", len(content))
    assert "unpacked" in trace["reason"]
    settings.KVCM_TRACES_BYTES = 100 << 20
    client.post(f"{URL}{bomb}/read/", {})
    work()
    assert client.get(f"{URL}{bomb}/").data["requests"] == 20_000


def test_a_full_disk_is_told_and_nothing_is_left(
    api: Api, sent: list[str], optimizer_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = api()
    (full := optimizer_folder / "full").parent.mkdir()
    full.symlink_to("/dev/full")
    with monkeypatch.context() as on_a_full_disk:
        on_a_full_disk.setattr(uploads, "source_file", lambda folder: FullFile(full))
        answer = upload(client, mooncake_lines(CHAINS))
    assert (answer.status_code, answer.data["code"]) == (CODES[Code.IO_ERROR].rest, "io_error")
    assert "No space left" in answer.data["message"] and folders(optimizer_folder) == []
    assert upload(client, mooncake_lines(CHAINS)).status_code == 201


class FullFile:
    """A file whose disk is full: what is written fails when it is to be kept."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self, mode: str) -> BinaryIO:
        return self._path.open("wb")


def test_a_list_costs_as_many_queries_as_one_row(api: Api, sent, django_assert_num_queries) -> None:
    client = api(groups=["chat"])
    for _ in range(3):
        upload(client, mooncake_lines(CHAINS))
    client.get(URL)
    # The token with its account, the count, the rows, their groups.
    with django_assert_num_queries(4):
        assert client.get(URL).data["count"] == 3


def test_a_capture_becomes_a_trace_when_it_ends(api: Api, sent: list[str]) -> None:
    trace = capture_row_begin(
        acting=OPERATOR, name="live", groups=["chat"], capture={"instances": ["i"], "seconds": 60}
    )
    client = api(groups=["chat"])
    assert client.get(f"{URL}{trace.pk}/").data["state"] == "capturing"
    assert client.delete(f"{URL}{trace.pk}/").data["code"] == "in_use"
    assert capture_row_note(trace_id=trace.pk, figures={"events": 7}, source_bytes=10, progress=0.5)
    shown = client.get(f"{URL}{trace.pk}/").data
    assert (shown["progress"], shown["capture"]["events"], shown["capture"]["seconds"]) == (0.5, 7, 60)

    OptimizerTrace.objects.filter(pk=trace.pk).update(format_wanted="mooncake")
    content = mooncake_lines(CHAINS)
    capture_file(trace).write_bytes(content)
    assert capture_row_end(trace_id=trace.pk, figures={"events": 9}, source_bytes=len(content))
    assert not capture_row_end(trace_id=trace.pk, figures={}, source_bytes=0)
    assert not capture_row_note(trace_id=trace.pk, figures={}, source_bytes=0, progress=0)
    work()
    shown = client.get(f"{URL}{trace.pk}/").data
    assert (shown["state"], shown["blocks"], shown["capture"]["events"]) == ("ready", 10, 9)
    assert shown["sha256"] == hashlib.sha256(content).hexdigest()


def test_a_capture_that_failed_says_so(sent: list[str]) -> None:
    trace = capture_row_begin(acting=OPERATOR, name="live", groups=["chat"], capture={})
    assert capture_row_end(trace_id=trace.pk, figures={}, source_bytes=0, failure="nothing came")
    trace.refresh_from_db()
    assert (trace.state, trace.reason) == ("failed", "nothing came")
    assert not OptimizerJob.objects.exists()


def test_a_trace_without_a_job_gets_one(api: Api, sent: list[str]) -> None:
    upload(api(), mooncake_lines(CHAINS))
    OptimizerJob.objects.all().delete()
    assert optimizer_resume()["queued"] == 1
    assert optimizer_resume()["queued"] == 0
    assert work().done == 1
