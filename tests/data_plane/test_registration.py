"""Registrations that arrive together: identical ones share one call to control."""

from __future__ import annotations

import asyncio

from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.metadata_service.access import Caller, MetaAccess
from kvcm_platform.pb import admin_service_pb2 as admin_pb
from kvcm_platform.pb import meta_service_pb2 as pb
from tests.support.data_plane import DataPlane, handlers_of, instance


class Control:
    """Publishes what it is asked to register once it is let go on, as control does; refuses `bad`."""

    def __init__(self, plane: DataPlane) -> None:
        self.plane = plane
        self.asked: list[str] = []
        self.may_answer = asyncio.Event()

    async def register(self, request: admin_pb.RegisterInstanceRequest) -> None:
        self.asked.append(request.instance_id)
        await self.may_answer.wait()
        if request.instance_id == "bad":
            raise DomainError(Code.DUPLICATE, "registered with other content")
        self.plane.publish(2, instance(request.instance_id, 0xDEF))


def request(name: str, trace: int = 0) -> pb.RegisterInstanceRequest:
    return pb.RegisterInstanceRequest(
        trace_id=str(trace),
        instance_group="default",
        instance_id=name,
        block_size=4,
        location_spec_infos=[pb.LocationSpecInfo(name="tp0", size=1024)],
        model_deployment=pb.ModelDeployment(model_name="model", dtype="fp8"),
    )


async def test_identical_ones_share_a_call(plane: DataPlane) -> None:
    control = Control(plane)
    access = MetaAccess("open", "", "", plane.index.connection)
    handlers = handlers_of(plane, access, control)
    rpc = handlers.rpcs["RegisterInstance"]

    async def register(name: str, trace: int) -> int:
        answer = await handlers.call(rpc, request(name, trace), Caller("127.0.0.1"))
        return pb.RegisterInstanceResponse.FromString(answer).header.status.code

    calls = [asyncio.create_task(register(name, trace)) for trace in range(50) for name in ("new", "bad")]
    while len(control.asked) < 2:
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)  # all that came together have come as far as the first ones
    calls[0].cancel()  # one that gives up takes nothing from the others
    await asyncio.sleep(0)
    control.may_answer.set()
    found = await asyncio.gather(*calls[1:])
    assert sorted(control.asked) == ["bad", "new"]
    assert found == [pb.DUPLICATE_ENTITY, *[pb.OK, pb.DUPLICATE_ENTITY] * 49]
    assert await register("new", 99) == pb.OK
    assert await register("bad", 99) == pb.DUPLICATE_ENTITY
    assert sorted(control.asked) == ["bad", "bad", "new"]


async def test_waiting_for_the_registry_is_shared(plane: DataPlane, monkeypatch) -> None:
    """Fifty questions for unknown instances cost two readings, and see what was published before them."""
    readings = []
    original = plane.mirror._apply_log

    async def apply_log() -> bool:
        readings.append(1)
        return await original()

    monkeypatch.setattr(plane.mirror, "_apply_log", apply_log)
    running = asyncio.create_task(plane.mirror.refresh())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(readings) == 1
    plane.publish(2, instance("late", 0xDEF))
    found = await asyncio.gather(*(plane.mirror.instance("late") for _ in range(50)))
    await running
    assert [entry.instance_id for entry in found if entry is not None] == ["late"] * 50
    assert len(readings) <= 4
