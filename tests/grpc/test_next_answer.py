"""Two metadata processes: a block finished through one is in the next answer of the other, every time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from kvcm_platform.index import registry
from kvcm_platform.pb import meta_service_pb2 as pb
from kvcm_platform.pb.meta_service_pb2_grpc import MetaServiceStub
from tests.support.data_plane import group, instance, storage
from tests.support.metadata_process import metadata_process
from tests.support.valkey import valkey_server

TIMES = 100_000
ENGINES = 4
PROMPT = 100
"""Blocks of a prompt: it ends in the middle of the search cache's second chunk."""


def write(stub: MetaServiceStub, keys: range) -> None:
    """The last block of a prompt that grew by one."""
    start = pb.StartWriteCacheRequest(instance_id="model-a", block_keys=keys, write_timeout_seconds=60)
    started = stub.StartWriteCache(start)
    assert started.block_mask.offset == len(keys) - 1, started
    finish = pb.FinishWriteCacheRequest(
        instance_id="model-a",
        write_session_id=started.write_session_id,
        success_blocks=pb.BlockMask(offset=1),
    )
    assert stub.FinishWriteCache(finish).header.status.code == pb.OK


def engine(addresses: list[str], first_key: int, times: int) -> int:
    """Prompts that grow block by block: one process is told, then the other is asked; how often it knew."""
    seen = 0
    with grpc.insecure_channel(addresses[0]) as one, grpc.insecure_channel(addresses[1]) as two:
        stubs = [MetaServiceStub(one), MetaServiceStub(two)]
        for number in range(times):
            prompt, last = divmod(number, PROMPT)
            start = first_key + prompt * PROMPT
            keys = range(start, start + last + 1)
            write(stubs[number % 2], keys)
            request = pb.GetCacheLocationRequest(
                instance_id="model-a",
                query_type=pb.QT_PREFIX_MATCH,
                block_keys=keys,
                block_mask=pb.BlockMask(offset=len(keys) - 1) if number % 3 == 0 else None,
            )
            found = len(stubs[1 - number % 2].GetCacheLocation(request).locations)
            assert found == (1 if number % 3 == 0 else len(keys)), f"block {keys[-1]}: {found} of {len(keys)}"
            seen += 1
    return seen


@pytest.mark.parametrize(
    "times", [1000, pytest.param(TIMES, marks=[pytest.mark.long, pytest.mark.timeout(900)])]
)
def test_what_one_finished_the_other_knows(tmp_path: Path, times: int) -> None:
    with valkey_server() as valkey:
        client = valkey.client()
        registry.publish(client, version=1, changed=(storage(tmp_path / "nfs"), group(), instance()))
        client.close()
        with (
            metadata_process(valkey.url, tmp_path, KVCM_TRANSPORT="fast") as one,
            metadata_process(valkey.url, tmp_path, KVCM_TRANSPORT="fast") as two,
            ThreadPoolExecutor(ENGINES) as pool,
        ):
            addresses = [one.rpc, two.rpc]
            runs = [
                pool.submit(engine, addresses, (number + 1) << 40, times // ENGINES)
                for number in range(ENGINES)
            ]
            assert sum(run.result() for run in runs) == times
