"""Ingest: JSON lines and Parquet to columns with path ids, on a generated trace and on public ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import orjson
import pytest

from kvcm_platform.optimizer.generate import Shape, generate
from kvcm_platform.optimizer.trace import Trace
from kvcm_platform.optimizer.traces import ingest
from kvcm_platform.optimizer.traces.parquet import save_parquet
from tests.support.optimizer_traces import SHARED

from .report import Report

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

PART = "Ingest of traces, one core"
REQUESTS = 400_000
"""About 10 M block accesses."""
ROUNDS = 3


@pytest.fixture(scope="module")
def generated() -> Trace:
    return generate(REQUESTS, seed=7, shape=Shape())


def write_mooncake(trace: Trace, path: Path) -> None:
    """As the public traces have it: small ids, of which each names its block with all before it."""
    with path.open("wb") as file:
        for r in range(trace.requests):
            record = {
                "timestamp": int(trace.at_us[r]) // 1000,
                "input_length": int(trace.input_tokens[r]),
                "output_length": int(trace.output_tokens[r]),
                "hash_ids": trace.path[trace.offset[r] : trace.offset[r + 1]].tolist(),
            }
            file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))


def rates(blocks: int, run: Callable[[int], Any]) -> list[float]:
    """M blocks a second of CPU, of all threads."""
    found = []
    for number in range(ROUNDS):
        began = time.process_time()
        run(number)
        found.append(blocks / (time.process_time() - began) / 1e6)
    return found


def test_json_lines(generated: Trace, tmp_path: Path, report: Report) -> None:
    source = tmp_path / "source.jsonl"
    write_mooncake(generated, source)
    read = rates(generated.blocks, lambda number: ingest(source, tmp_path / f"t{number}"))
    size = source.stat().st_size / generated.blocks
    report.add(PART, "JSON lines to columns", median(read), "M blk/s", 3, is_floor=True, bytes_a_block=size)


def test_parquet(generated: Trace, tmp_path: Path, report: Report) -> None:
    source = tmp_path / "source.parquet"
    written = rates(generated.blocks, lambda _: save_parquet(generated, source))
    size = source.stat().st_size / generated.blocks
    report.add(PART, "columns to Parquet", median(written), "M blk/s", bytes_a_block=size)
    read = rates(generated.blocks, lambda number: ingest(source, tmp_path / f"t{number}"))
    report.add(PART, "Parquet to columns", median(read), "M blk/s", 10, is_floor=True)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("conversation trace", "mooncake_conversation_trace.jsonl"),
        ("WEKA sample, gz, out of order", "weka_agentic_sample.jsonl.gz"),
    ],
)
def test_public_traces(name: str, file: str, tmp_path: Path, report: Report) -> None:
    if not (SHARED / file).exists():
        report.note(f"{name}: not here")
        return
    trace = ingest(SHARED / file, tmp_path / "first")
    read = rates(trace.blocks, lambda number: ingest(SHARED / file, tmp_path / f"t{number}"))
    report.add(PART, name, median(read), "M blk/s", blocks=trace.blocks)
