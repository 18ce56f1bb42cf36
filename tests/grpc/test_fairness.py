"""One tenant floods two real processes; the other is served as if nobody else were there."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from kvcm_platform.core.registry import FairnessLimits
from kvcm_platform.index import registry
from kvcm_platform.index.stats import admissions_of_all
from tests.support.data_plane import group, instance, storage
from tests.support.doors import GrpcDoor, HttpDoor
from tests.support.metadata_process import MetadataProcess, metadata_process
from tests.support.valkey import ValkeyServer, valkey_server

RATE = 50
CALLS = 200


@pytest.fixture(scope="module", params=["grpcio", "fast"])
def processes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[list[MetadataProcess], ValkeyServer]]:
    root = tmp_path_factory.mktemp("fairness")
    with ExitStack() as stack:
        valkey = stack.enter_context(valkey_server())
        entries = (
            storage(root / "nfs"),
            group(limits=FairnessLimits(calls_per_second=RATE)),
            group(name="other", number=2),
            instance(),
            instance("other", 0xDEF, group="other", group_number=2),
        )
        registry.publish(valkey.client(), version=1, changed=entries)
        yield (
            [
                stack.enter_context(metadata_process(valkey.url, root, KVCM_TRANSPORT=request.param))
                for _ in range(2)
            ],
            valkey,
        )


class Flood:
    """Threads that call for `model-a` without a pause until they are told to stop."""

    def __init__(self, processes: list[MetadataProcess]) -> None:
        self._stop = threading.Event()
        self.codes: dict[str, int] = {}
        self.messages: set[str] = set()
        doors = [GrpcDoor(process.rpc) for process in processes] + [HttpDoor(processes[0].http_port)]
        self._doors = doors
        self._threads = [threading.Thread(target=self._run, args=(door,)) for door in doors]

    def _run(self, door: GrpcDoor | HttpDoor) -> None:
        while not self._stop.is_set():
            answer = door.call("GetCacheLocation", body("model-a"))
            self.codes[answer.code] = self.codes.get(answer.code, 0) + 1
            self.messages.add(answer.message)

    def __enter__(self) -> Flood:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(40)
        for door in self._doors:
            door.close()


def body(instance_id: str) -> dict[str, object]:
    return {"instance_id": instance_id, "query_type": "QT_BATCH_GET", "block_keys": [1, 2, 3]}


def test_a_flood_of_one_group_leaves_the_other_alone(
    processes: tuple[list[MetadataProcess], ValkeyServer],
) -> None:
    members, valkey = processes
    client = valkey.client()

    def server_time() -> float:
        seconds, microseconds = client.time()
        return seconds + microseconds / 1e6

    doors = [GrpcDoor(process.rpc) for process in members]
    began = server_time()
    with Flood(members) as flood:
        for number in range(CALLS):
            door = doors[number % 2]
            # A call of the quiet tenant has a deadline that a queue behind the flood would miss.
            assert door.call("GetCacheLocation", body("other")).code == "OK"
            time.sleep(0.01)
    elapsed = server_time() - began
    for door in doors:
        door.close()
    assert set(flood.codes) == {"OK", "RESOURCE_EXHAUSTED"}
    assert flood.codes["OK"] <= RATE * elapsed + RATE / 10 + 2 * max(1, RATE / 50)
    assert flood.codes["RESOURCE_EXHAUSTED"] > flood.codes["OK"]
    assert flood.messages == {"", f"group default: its limit of {RATE} calls_per_second is used up"}
    deadline = time.monotonic() + 40
    while (totals := admissions_of_all(client).get("default")) is None or (
        totals.allowed_calls < flood.codes["OK"] or totals.refused_calls < flood.codes["RESOURCE_EXHAUSTED"]
    ):
        assert time.monotonic() < deadline, totals
    assert totals.allowed_blocks == 3 * totals.allowed_calls
    assert totals.refused_sessions == 0
    assert "other" not in admissions_of_all(client)
