"""A trace larger than memory is read: what may not be given back to the kernel stays below a limit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import orjson
import pytest

from kvcm_platform.optimizer.traces import open_trace

ROOM_BYTES = 96 << 20
REQUESTS, BLOCKS = 200_000, 100
SHARED_BLOCKS = 40
"""Of a request, with one of the requests before it; the rest are new."""

CHILD = """
import json, resource, sys
from kvcm_platform.optimizer.traces import ingest
from kvcm_platform.optimizer.traces.parquet import save_parquet

def data_bytes():
    for line in open("/proc/self/status"):
        if line.startswith("VmData"):
            return 1024 * int(line.split()[1])

source, small, folder, room = sys.argv[1:]
for number, path in enumerate((small, small)):
    warm = ingest(path, f"{folder}/warm-{number}")
base = data_bytes()
# Private memory: mapped files are not counted, which the kernel may drop at any time.
resource.setrlimit(resource.RLIMIT_DATA, (base + int(room), base + int(room)))
trace = ingest(source, f"{folder}/trace")
print(json.dumps({"data": data_bytes() - base, "blocks": trace.blocks, "paths": trace.distinct_blocks}))
"""


def write(path: Path, requests: int, *, is_falling: bool) -> None:
    random = np.random.default_rng(3)
    with path.open("wb") as file:
        for r in range(requests):
            other = int(random.integers(0, r + 1)) * BLOCKS if r else 0
            ids = [*range(other, other + SHARED_BLOCKS), *range(r * BLOCKS + SHARED_BLOCKS, (r + 1) * BLOCKS)]
            if r == 0 or other == r * BLOCKS:
                ids = list(range(r * BLOCKS, (r + 1) * BLOCKS))
            record = {
                "timestamp": requests - r if is_falling else r,
                "input_length": 512 * BLOCKS,
                "output_length": 1,
                "hash_ids": ids,
            }
            file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))


def run(tmp_path: Path, source: Path, room: int) -> subprocess.CompletedProcess[str]:
    write(tmp_path / "small", 50, is_falling=True)
    command = [sys.executable, "-c", CHILD, str(source), str(tmp_path / "small"), str(tmp_path), str(room)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.long
@pytest.mark.parametrize("is_falling", [False, True])
def test_ingest_stays_below_a_limit_that_its_trace_does_not(is_falling: bool, tmp_path: Path) -> None:
    source = tmp_path / "source"
    write(source, REQUESTS, is_falling=is_falling)
    done = run(tmp_path, source, ROOM_BYTES)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    assert told["blocks"] == REQUESTS * BLOCKS
    trace = open_trace(tmp_path / "trace")
    size = sum(path.stat().st_size for path in (tmp_path / "trace").iterdir())
    assert size > 3 * ROOM_BYTES
    assert told["paths"] == trace.distinct_blocks > REQUESTS * (BLOCKS - SHARED_BLOCKS)
    assert np.all(np.diff(trace.at_us) >= 0)


@pytest.mark.long
def test_the_limit_is_one(tmp_path: Path) -> None:
    """With next to no room it does fail, so the test above says something."""
    source = tmp_path / "source"
    write(source, REQUESTS // 10, is_falling=False)
    assert run(tmp_path, source, 1 << 20).returncode != 0
