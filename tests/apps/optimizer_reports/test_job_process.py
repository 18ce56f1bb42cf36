"""The process of a job: what it says, how it ends, and that it never outlives who started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from apps.optimizer_reports.services.processes import JobProcess
from kvcm_platform.optimizer.analysis.order import Order, unpacked
from tests.support.eventually import eventually
from tests.support.optimizer_jobs import mooncake_lines

GIB = 1 << 30


def generate(folder: Path, requests: int, memory_bytes: int = GIB) -> Order:
    options = {"requests": requests, "seed": 0, "instances": 1, "block_bytes": 0}
    target = {
        "columns": str(folder / "columns"),
        "parquet": str(folder / "trace.parquet"),
        "options": options,
    }
    return Order("generate", target, memory_bytes)


def read(folder: Path, content: bytes, memory_bytes: int = GIB) -> Order:
    (folder / "source").write_bytes(content)
    arguments = {
        "source": str(folder / "source"),
        "columns": str(folder / "columns"),
        "parquet": str(folder / "trace.parquet"),
        "name": "t",
        "format": "",
        "options": {},
    }
    return Order("read", arguments, memory_bytes)


def is_alive(pid: int) -> bool:
    with suppress(FileNotFoundError):
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False


def test_it_tells_progress_and_what_it_found(tmp_path: Path) -> None:
    process = JobProcess(read(tmp_path, mooncake_lines([[1, 2], [1, 3]])))
    seen = [process.progress]
    while not process.wait(0.05):
        seen.append(process.progress)
    assert process.failure == "" and process.result is not None
    found = unpacked(process.result)
    assert (found["requests"], found["blocks"], found["distinct_blocks"]) == (2, 4, 3)
    assert process.progress == 1.0 and seen == sorted(seen)
    assert process.peak_bytes > 10 << 20
    assert not is_alive(process.pid)


def test_a_source_that_cannot_be_read_is_a_sentence_and_no_crash(tmp_path: Path) -> None:
    process = JobProcess(read(tmp_path, b"{}\n"))
    assert process.wait(120)
    assert process.result is None and "no known format" in process.failure


@pytest.mark.long
def test_memory_beyond_the_limit_ends_the_job_alone(tmp_path: Path) -> None:
    process = JobProcess(generate(tmp_path, 4_000_000, memory_bytes=400 << 20))
    assert process.wait(300)
    assert process.result is None
    assert "KVCM_OPTIMIZER_MEMORY_MB" in process.failure and "400 MiB" in process.failure


def test_it_can_be_ended_at_any_time(tmp_path: Path) -> None:
    process = JobProcess(generate(tmp_path, 4_000_000, memory_bytes=0))
    eventually(lambda: process.progress > 0, seconds=120)
    process.kill()
    assert not is_alive(process.pid)
    assert process.result is None and process.failure == "it was ended"
    assert not (tmp_path / "columns").exists()


def test_one_that_is_killed_says_so(tmp_path: Path) -> None:
    process = JobProcess(generate(tmp_path, 4_000_000, memory_bytes=0))
    eventually(lambda: process.progress > 0, seconds=120)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(30)
    assert "memory is short" in process.failure


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_it_dies_with_who_started_it(tmp_path: Path) -> None:
    order = tmp_path / "order"
    order.write_bytes(generate(tmp_path, 4_000_000, memory_bytes=0).line())
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(order)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "kvcm_platform.settings.test"},
        cwd=Path(__file__).parents[3],
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert is_alive(child)
    parent.kill()
    parent.wait()
    eventually(lambda: not is_alive(child), seconds=60)
    parent.stdout.close()


_PARENT = """
import sys, time
import django
django.setup()
from apps.optimizer_reports.services.processes import JobProcess
from kvcm_platform.optimizer.analysis.order import Order
process = JobProcess(Order.from_line(open(sys.argv[1], "rb").read()))
while not process.progress:
    time.sleep(0.02)
print(process.pid, flush=True)
process.wait(600)
"""
