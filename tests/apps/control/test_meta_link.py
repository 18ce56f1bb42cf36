"""The two calls on blocks: control decides who may make them, and the data plane believes it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from apps.common.actor import Role
from kvcm_platform.pb import admin_service_pb2 as admin_pb
from kvcm_platform.pb import meta_service_pb2 as pb
from kvcm_platform.pb import meta_service_pb2_grpc as pb_grpc
from tests.apps.control.conftest import Metadata, Start
from tests.factories.actors import make_token
from tests.factories.objects import make_group, make_instance

READ = admin_pb.GetCacheMetaRequest(instance_id="model-a", block_keys=[1])
REMOVE = admin_pb.RemoveCacheRequest(instance_id="model-a", block_keys=[1])


class Meta(pb_grpc.MetaServiceServicer):
    """Stands in for a metadata process; keeps what each call brought along."""

    def __init__(self) -> None:
        self.brought: list[dict[str, str]] = []

    def _answer(self, context: grpc.ServicerContext, answer: object) -> object:
        self.brought.append({name: str(value) for name, value in context.invocation_metadata()})
        return answer

    def GetCacheMeta(self, request: object, context: grpc.ServicerContext) -> object:  # noqa: N802
        return self._answer(context, pb.GetCacheMetaResponse(metas=["x"]))

    def RemoveCache(self, request: object, context: grpc.ServicerContext) -> object:  # noqa: N802
        return self._answer(context, pb.CommonResponse())


@pytest.fixture
def meta() -> Iterator[tuple[Meta, int]]:
    """The stand-in and its port."""
    meta, server = Meta(), grpc.server(ThreadPoolExecutor(2))
    pb_grpc.add_MetaServiceServicer_to_server(meta, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield meta, port
    server.stop(None)


def bearer(role: Role, groups: list[str] | None = None) -> Metadata:
    return (("authorization", f"Bearer {make_token(role, groups)}"),)


def test_a_call_on_blocks_carries_the_internal_token(meta: tuple[Meta, int], start_control: Start) -> None:
    stand_in, port = meta
    control = start_control(KVCM_META_RPC_PORT=str(port))
    make_group()
    make_instance()
    assert list(control.call("GetCacheMeta", READ, bearer(Role.VIEWER, ["chat"])).metas) == ["x"]
    removed = control.call("RemoveCache", REMOVE, bearer(Role.OPERATOR, ["chat"]))
    assert removed.header.status.code == admin_pb.OK
    sent = [(each.get("x-kvcm-internal"), each.get("authorization")) for each in stand_in.brought]
    assert sent == [(control.env.internal_token, None)] * 2


def test_role_and_groups_are_controls_to_judge(meta: tuple[Meta, int], start_control: Start) -> None:
    stand_in, port = meta
    control = start_control(KVCM_META_RPC_PORT=str(port))
    make_group()
    make_instance()
    for method, request, sent in (
        ("GetCacheMeta", READ, bearer(Role.ENGINE)),
        ("RemoveCache", REMOVE, bearer(Role.VIEWER)),
        ("RemoveCache", REMOVE, ()),
    ):
        with pytest.raises(grpc.RpcError):
            control.call(method, request, sent)
    for method, request in (("GetCacheMeta", READ), ("RemoveCache", REMOVE)):
        answer = control.call(method, request, bearer(Role.ADMIN, ["search"]))
        assert answer.header.status.code == admin_pb.INSTANCE_NOT_EXIST
    assert stand_in.brought == []
