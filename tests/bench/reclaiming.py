"""Reclaims by a process of its own, as a worker would: one run for each line that it reads."""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import redis

from kvcm_platform.core.reclaim.plan import Plan
from kvcm_platform.core.reclaim.runs import ReclaimRequest, RunReport
from kvcm_platform.duties.reclaim import reclaim_round
from kvcm_platform.duties.reclaim_choice import PLAN_BLOCKS, Choice, Target
from kvcm_platform.index import reclaim_desk
from tests.support.data_plane import DataPlane, data_plane

from .million import ROOT

GROUP = "default"


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """One run: seconds for its plans, and from the first look at what is to be done to the last mark."""

    blocks: int
    plan_seconds: float
    seconds: float

    @property
    def marking_seconds(self) -> float:
        return self.seconds - self.plan_seconds


class Reclaimer:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, percent: float) -> Reclaimed:
        """Reclaims so much of what could be evicted."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{percent}\n")
        self._process.stdin.flush()
        return Reclaimed(**json.loads(self._process.stdout.readline()))


@contextmanager
def reclaimer(url: str) -> Iterator[Reclaimer]:
    command = [sys.executable, "-m", "tests.bench.reclaiming", url]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready"
        yield Reclaimer(process)
    finally:
        process.kill()
        process.wait(10)


class Planning:
    """Times the plans of this process's runs from the outside."""

    def __init__(self) -> None:
        self.seconds = 0.0
        original = Choice.plan

        async def plan(choice: Choice, target: Target, most_blocks: int = PLAN_BLOCKS) -> Plan:
            began = time.perf_counter()
            try:
                return await original(choice, target, most_blocks)
            finally:
                self.seconds += time.perf_counter() - began

        Choice.plan = plan  # type: ignore[method-assign]

    def taken(self) -> float:
        """Seconds since the last time that this was asked."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


async def run(plane: DataPlane, client: redis.Redis, percent: float) -> RunReport:
    """Carries a run out until its last block is marked; its report."""
    request = ReclaimRequest(secrets.token_hex(8), GROUP, percent=percent)
    position = reclaim_desk.newest_report(client)
    reclaim_desk.request_hand_in(client, request)
    while True:
        await reclaim_round(await plane.session())
        for position, report in reclaim_desk.reports_after(client, position, 1000):  # noqa: B007, B020
            if report is not None and report.id == request.id and report.marked_ms:
                return report


async def serve(url: str) -> None:
    client, planning = redis.Redis(unix_socket_path=url.removeprefix("unix://")), Planning()
    async with data_plane(url, client) as plane:
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            began = time.perf_counter()
            report = await run(plane, client, float(line))
            seconds = time.perf_counter() - began
            done = Reclaimed(report.chosen_blocks, planning.taken(), seconds)
            print(json.dumps(asdict(done)), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
