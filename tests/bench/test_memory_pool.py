"""Bytes a second to and from a memory pool: through shared memory and through the agent."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

import numpy as np
import pytest

from kvcm_platform.transfer import PoolTransfer
from tests.support.mempool import agent_host, pool_uri, spec_of

from .report import Report

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

KIB, MIB = 1 << 10, 1 << 20
BATCHES = ((64 * KIB, 512), (MIB, 64), (4 * MIB, 16))
ROUNDS = 7


def median_seconds(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def copy_out(transfer: PoolTransfer, uris: list[str], buffer: np.ndarray) -> None:
    """As an engine that has a place of its own for the bytes."""
    for uri in uris:
        with transfer.reading(uri) as view:
            buffer[:] = np.frombuffer(view, np.uint8)


@pytest.mark.parametrize("way", ["shared memory", "agent"])
def test_bytes_a_second(report: Report, way: str) -> None:
    """One process of each kind; batches of one size, every write to fresh ranges of the same slots."""
    with agent_host() as host:
        agent = host.start("a", "256M")
        with PoolTransfer(spec_of(agent), is_remote=way == "agent") as transfer:
            for size, count in BATCHES:
                blocks = [os.urandom(size) for _ in range(count)]
                last: list[str] = []

                def write(size: int = size, blocks: list[bytes] = blocks, last: list[str] = last) -> None:
                    last[:] = [pool_uri(at * size, size) for at in range(len(blocks))]
                    assert not any(transfer.write_batch(list(zip(last, blocks, strict=True))))

                write()
                written = median_seconds(write)
                assert transfer.read_batch(last) == blocks
                read = median_seconds(lambda last=last: transfer.read_batch(last))
                taken = [("write", written), ("read", read)]
                if way == "shared memory":
                    buffer = np.empty(size, np.uint8)
                    seconds = median_seconds(
                        lambda last=last, buffer=buffer: copy_out(transfer, last, buffer)
                    )
                    taken.append(("read without a copy, into one buffer", seconds))
                for what, seconds in taken:
                    name = f"{what}, {way}, {count} blocks of {size >> 10} KiB"
                    report.add("memory pool", name, size * count / seconds / 1e9, "GB/s")
