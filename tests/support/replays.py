"""Traces for replays, public where present and generated otherwise; and the replay itself."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.platform_process import ROOT, PlatformProcess

TRACES = ROOT.parent / "shared" / "data" / "traces"
EXPECTED = {
    "mooncake_conversation_trace.jsonl": (12_031, 288_500, 105_710),
    "mooncake_synthetic_trace.jsonl": (3_993, 121_877, 77_953),
}
"""Requests, blocks and hits with unlimited capacity, verified by exact simulation."""


def generated_trace(path: Path, requests: int = 400, seed: int = 7) -> tuple[int, int, int]:
    """Writes a Mooncake-style trace of growing conversations; returns (requests, blocks, hits)."""
    rng = random.Random(seed)
    next_id, chains = iter(range(1, 10**9)), [[0]]
    known: set[int] = set()
    blocks = hits = 0
    with path.open("w") as file:
        for number in range(requests):
            # A conversation ends when it is long; the next begins with the system prompt that all share.
            base = rng.choice([chain for chain in chains[-40:] if len(chain) < 150] or [[0]])
            chain = base + [next(next_id) for _ in range(rng.randint(1, 30))]
            chains.append(chain)
            blocks += len(chain)
            hit = 0
            while hit < len(chain) and chain[hit] in known:
                hit += 1
            hits += hit
            known.update(chain)
            row = {
                "timestamp": number * 10,
                "input_length": len(chain) * 512,
                "output_length": 10,
                "hash_ids": chain,
            }
            file.write(json.dumps(row) + "\n")
    return requests, blocks, hits


def documents_trace(path: Path, requests: int = 4000, seed: int = 5) -> None:
    """A trace whose hits depend on what a cache keeps: prompts over documents, few of them asked about often.

    10,000 blocks hit .687 of it where the least recently used goes, .658 where the oldest goes. Spans a
    minute; 45,000 blocks.
    """
    rng = random.Random(seed)
    next_id = iter(range(1, 10**9))
    documents = [[next(next_id) for _ in range(30)] for _ in range(3000)]
    with path.open("w") as file:
        for number in range(requests):
            rank = min(len(documents), int(rng.paretovariate(0.5))) - 1
            chain = documents[rank] + [next(next_id) for _ in range(rng.randint(2, 15))]
            row = {
                "timestamp": number * 60_000 // requests,
                "input_length": len(chain) * 512,
                "output_length": 10,
                "hash_ids": chain,
            }
            file.write(json.dumps(row) + "\n")


def replay_command(platform: PlatformProcess, trace: Path, *options: str) -> list[str]:
    endpoint = f"127.0.0.1:{platform.port('KVCM_META_RPC_PORT')}"
    command = [sys.executable, "-m", "kvcm_platform.client", "replay", "--trace", str(trace)]
    return [*command, "--format", "mooncake", "--endpoint", endpoint, "--json", *options]


def replay(platform: PlatformProcess, trace: Path, *options: str, seconds: float = 300) -> dict[str, Any]:
    """Plays a trace to its end; the figures that were printed."""
    command = replay_command(platform, trace, *options)
    done = subprocess.run(
        command, cwd=ROOT, env=platform.environment, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def manage(platform: PlatformProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=platform.environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def recount(platform: PlatformProcess) -> list[dict[str, Any]]:
    """What `manage.py recount --json` printed; it must have found no drift."""
    done = manage(platform, "recount", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
