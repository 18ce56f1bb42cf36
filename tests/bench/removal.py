"""Blocks removed at full speed by a process of its own, and what matches take meanwhile."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import grpc
import redis

from kvcm_platform.core.masks import Mask
from kvcm_platform.core.use_cases import Blocks
from kvcm_platform.pb import meta_service_pb2 as pb
from tests.support.data_plane import data_plane

from .million import BATCH, ROOT, SERVICE

SPAN_SUFFIX = "__kvcm_need_span_tracer"
"""A trace id that ends so is answered with the time that the call took inside the server."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Sorted, in microseconds: inside the server, and as the client sees them."""

    inside: list[float]
    outside: list[float]


def latencies_us(
    address: str, match_of: Callable[[range, str], bytes], keys: range, seconds: float
) -> Latencies:
    request = match_of(keys, SPAN_SUFFIX)
    inside, outside = [], []
    with grpc.insecure_channel(address) as channel:
        match = channel.unary_unary(f"{SERVICE}GetCacheLocation")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.perf_counter()
            answer = match(request, timeout=5)
            outside.append((time.perf_counter() - began) * 1e6)
            header = pb.GetCacheLocationResponse.FromString(answer).header
            inside.append(float(json.loads(header.tracer_result)["duration_us"]))
    return Latencies(sorted(inside), sorted(outside))


@dataclass(slots=True)
class Removed:
    blocks: int = 0
    deleted: int = 0
    seconds: float = 0.0


@contextmanager
def removing(url: str, instance_id: str, start: int, stop: int) -> Iterator[Callable[[], Removed]]:
    """Removes blocks until left, then tells how many."""
    command = [sys.executable, "-m", "tests.bench.removal", url, instance_id, str(start), str(stop)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline().strip() == "removing"
    found: list[Removed] = []
    try:
        yield lambda: found[0]
        process.stdin.close()
        found.append(Removed(**json.loads(process.stdout.readline())))
    finally:
        process.kill()
        process.wait(10)


async def remove(url: str, instance_id: str, start: int, stop: int) -> Removed:
    """Removes batch after batch and deletes what is due, until the standard input ends."""
    done = Removed()
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    keep: Mask = None
    async with data_plane(url, redis.Redis(unix_socket_path=url.removeprefix("unix://"))) as plane:
        print("removing", flush=True)
        began = time.monotonic()

        async def delete() -> None:
            while not ended.done():
                done.deleted += (await plane.duties()).deletions.deleted
                await asyncio.sleep(0.1)

        deleting = asyncio.create_task(delete())
        for at in range(start, stop, BATCH):
            if ended.done():
                break
            await plane.service.remove_cache(instance_id, Blocks(range(at, min(at + BATCH, stop)), ()), keep)
            done.blocks += BATCH
        done.seconds = time.monotonic() - began
        await ended
        await deleting
    return done


if __name__ == "__main__":
    result = asyncio.run(remove(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    print(
        json.dumps({"blocks": result.blocks, "deleted": result.deleted, "seconds": result.seconds}),
        flush=True,
    )
