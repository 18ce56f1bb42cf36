"""Processes that were stopped (SIGSTOP, a swapping host, a paused machine) and wake up."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import grpc

from kvcm_platform.duties.lease import duties_lease
from kvcm_platform.duties.run import duties_run
from kvcm_platform.index import keyspace
from kvcm_platform.pb import meta_service_pb2 as pb
from kvcm_platform.pb import meta_service_pb2_grpc as pb_grpc
from tests.support.eventually import eventually_async
from tests.support.metadata_process import metadata_process

ROOT = Path(__file__).parents[2]
SHARDS = "{abc:*"
KEYS = list(range(1, 201))


async def test_a_duty_that_wakes_up_after_its_lease_changes_nothing(plane, empty_valkey):
    await plane.write(KEYS)
    await plane.index.remove(plane.mirror.current.instances["model-a"], KEYS[:50], 0)
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.support.duty_worker", empty_valkey.url, "3000"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        await asyncio.to_thread(os.waitpid, worker.pid, os.WUNTRACED)
        await eventually_async(lambda: plane.client.get(keyspace.DUTIES_LEASE) is None)
        session = await plane.session()
        async with duties_lease(session) as owner:
            report = await duties_run(session, owner=owner)
            assert (report.deletions.deleted, report.failures) == (50, 0)
        await plane.index.remove(plane.mirror.current.instances["model-a"], KEYS[50:60], 60_000)
        before = {name: plane.client.dump(name) for name in sorted(plane.client.scan_iter(SHARDS))}
        os.kill(worker.pid, signal.SIGCONT)
        output, errors = await asyncio.to_thread(worker.communicate, timeout=60)
        assert json.loads(output.splitlines()[-1])["deletions"]["deleted"] == 0
        assert b"the duties were taken over" in output + errors
        assert {name: plane.client.dump(name) for name in sorted(plane.client.scan_iter(SHARDS))} == before
    finally:
        worker.kill()
        worker.wait()
    assert not (await plane.recount()).has_drift


async def test_a_metadata_process_that_wakes_up_serves_nothing_removed(plane, empty_valkey, tmp_path):
    """Its clock went on while it stood still: what it remembers is confirmed before it is served."""
    await plane.write(KEYS)
    with metadata_process(empty_valkey.url, tmp_path / "process") as process:
        async with grpc.aio.insecure_channel(process.rpc) as channel:
            stub = pb_grpc.MetaServiceStub(channel)
            question = pb.GetCacheLocationRequest(
                instance_id="model-a", block_keys=KEYS, query_type=pb.QT_PREFIX_MATCH
            )
            for _ in range(3):
                assert len((await stub.GetCacheLocation(question)).locations) == len(KEYS)
            for removed in (100, 37, 0):
                os.kill(process.process.pid, signal.SIGSTOP)
                waiting = [stub.GetCacheLocation(question) for _ in range(4)]
                await plane.index.remove(plane.mirror.current.instances["model-a"], KEYS[removed:], 60_000)
                await asyncio.sleep(0.3)
                os.kill(process.process.pid, signal.SIGCONT)
                begun = time.monotonic()
                answers = await asyncio.gather(*waiting, *(stub.GetCacheLocation(question) for _ in range(4)))
                assert time.monotonic() - begun < 20
                assert {len(answer.locations) for answer in answers} == {removed}
