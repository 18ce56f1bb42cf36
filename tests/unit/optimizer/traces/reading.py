"""Small traces written for a test and read again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kvcm_platform.optimizer.trace import Event, Trace
from kvcm_platform.optimizer.traces import ingest


def write_lines(path: Path, records: Iterable[Any]) -> Path:
    path.write_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    return path


def read_lines(tmp_path: Path, records: Iterable[Any], **options: Any) -> Trace:
    """Writes the records as JSON lines and ingests them."""
    source = write_lines(tmp_path / "source.jsonl", records)
    taken = sum(1 for _ in tmp_path.iterdir())
    return ingest(source, tmp_path / f"trace-{taken}", **options)


def rows(trace: Trace) -> list[tuple[str, int, list[int], int, int]]:
    """(kind, time, keys, skip_n, read_n) of each request; the time in unix microseconds where it is one."""
    found = []
    for r in range(trace.requests):
        chain = trace.path[trace.offset[r] : trace.offset[r + 1]]
        found.append(
            (
                Event(int(trace.event[r])).name,
                trace.header.start_us + int(trace.at_us[r]),
                [int(trace.key[path]) for path in chain],
                int(trace.skip_n[r]),
                int(trace.read_n[r]),
            )
        )
    return found
