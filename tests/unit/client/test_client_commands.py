"""`python -m kvcm_platform.client`, as a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .fake_meta import FakeMeta

MEMBERS = [
    "requests",
    "blocks",
    "hit_blocks",
    "hit_rate",
    "written_blocks",
    "write_refused",
    "errors",
    "bytes_written",
    "bytes_read",
    "bytes_wrong",
    "failed_reads",
    "seconds",
    "rpc",
]


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    records = [
        {"timestamp": 1000 * n, "input_length": 1024, "output_length": 1, "hash_ids": [0, 1, n + 2]}
        for n in range(40)
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records) + "broken\n")
    return path


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "kvcm_platform.client", *map(str, arguments)]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False, timeout=60)


def test_json_report(endpoint: str, trace_file: Path, tmp_path: Path) -> None:
    done = run(
        "replay", "--trace", trace_file, "--format", "mooncake", "--engines", "1",
        "--endpoint", endpoint, "--with-data", "--block-bytes", "128", "--data-dir", tmp_path, "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert list(report) == MEMBERS
    assert (report["requests"], report["blocks"], report["hit_blocks"]) == (40, 120, 78)
    assert report["hit_rate"] == pytest.approx(78 / 120)
    assert (report["written_blocks"], report["bytes_written"]) == (42, 42 * 128)
    assert (report["bytes_read"], report["bytes_wrong"], report["errors"]) == (78 * 128, 0, 0)
    assert set(report["rpc"]) == {
        "RegisterInstance",
        "GetCacheLocation",
        "StartWriteCache",
        "FinishWriteCache",
    }
    assert report["rpc"]["GetCacheLocation"]["count"] == 40
    assert set(report["rpc"]["GetCacheLocation"]) == {"count", "p50_ms", "p99_ms", "max_ms"}


def test_text_report_names_the_same_figures(endpoint: str, trace_file: Path, service: FakeMeta) -> None:
    done = run(
        "replay", "--trace", trace_file, "--format", "mooncake", "--endpoint", endpoint,
        "--limit", "10", "--group", "g", "--instance", "mine", "--token", "t0k",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name in MEMBERS[:-1]:
        assert name in done.stdout
    assert "GetCacheLocation" in done.stdout
    sent = service.last["RegisterInstance"]
    assert (sent.instance_group, sent.instance_id, sent.block_size) == ("g", "mine", 512)
    assert service.metadata["authorization"] == "Bearer t0k"


def test_a_bad_line_is_named(endpoint: str, trace_file: Path) -> None:
    done = run("replay", "--trace", trace_file, "--format", "mooncake", "--endpoint", endpoint)
    assert "line 41 skipped" in done.stderr


def test_wrong_bytes_fail_the_command(endpoint: str, trace_file: Path, service: FakeMeta) -> None:
    arguments = ["replay", "--trace", trace_file, "--format", "mooncake", "--endpoint", endpoint, "--json"]
    assert run(*arguments, "--with-data").returncode == 0
    (path,) = service.root.rglob("s1_0")
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    done = run(*arguments, "--with-data")
    assert done.returncode == 1
    assert json.loads(done.stdout)["bytes_wrong"] == 40
    path.unlink()
    done = run(*arguments, "--with-data")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert (report["bytes_wrong"], report["failed_reads"]) == (0, 40 * 2 + 1)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--trace", "/nowhere", "--format", "weka"], "no such file"),
        (["--trace", __file__, "--format", "csv"], "invalid choice"),
        (["--trace", __file__, "--format", "weka", "--engines", "0"], "at least 1"),
        (["--trace", __file__, "--format", "weka", "--speed", "-1"], "0 or more"),
    ],
)
def test_bad_arguments(arguments: list[str], word: str) -> None:
    done = run("replay", *arguments)
    assert done.returncode == 2
    assert word in done.stderr


def test_sigterm_ends_a_replay_in_order(endpoint: str, trace_file: Path, service: FakeMeta) -> None:
    process = subprocess.Popen(
        command(
            "replay",
            "--trace",
            trace_file,
            "--format",
            "mooncake",
            "--endpoint",
            endpoint,
            "--speed",
            "1",
            "--json",
        ),  # fmt: skip
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_for_calls(service, "FinishWriteCache", 2)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=40)
    assert process.returncode == 130
    assert 2 <= json.loads(output)["requests"] < 40


def test_the_demo_runs_until_sigterm(endpoint: str, service: FakeMeta) -> None:
    process = subprocess.Popen(
        command("demo", "--endpoint", endpoint, "--rate", "200"), stderr=subprocess.PIPE, text=True
    )
    wait_for_calls(service, "FinishWriteCache", 20)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    started = time.monotonic()
    _, errors = process.communicate(timeout=40)
    assert process.returncode == 0
    assert time.monotonic() - started < 8
    assert "0 wrong bytes" in errors


def wait_for_calls(service: FakeMeta, rpc: str, count: int) -> None:
    deadline = time.monotonic() + 20
    while service.calls[rpc] < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)
