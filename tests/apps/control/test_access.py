"""Who may call AdminService, over gRPC and HTTP (KVCM_ADMIN_AUTH, the internal token)."""

from __future__ import annotations

import grpc
import pytest

from apps.accounts.models import ApiToken
from apps.accounts.services import token_revoke
from apps.audit.models import AuditEntry
from apps.common.actor import Role
from kvcm_platform.pb import admin_service_pb2 as pb
from tests.apps.control.conftest import Control, Metadata, Start
from tests.factories.actors import ADMIN, make_token
from tests.factories.messages import group_message, register_request
from tests.factories.objects import make_group


def bearer(token: str) -> Metadata:
    return (("authorization", f"Bearer {token}"),)


def internal(control: Control, *more: tuple[str, str]) -> Metadata:
    return (("x-kvcm-internal", control.env.internal_token), *more)


def status_of(control: Control, method: str, request: object, metadata: Metadata) -> grpc.StatusCode:
    """The gRPC status that a call ends with."""
    try:
        control.call(method, request, metadata)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


LIST, CREATE = pb.ListStorageRequest(), pb.CreateInstanceGroupRequest(instance_group=group_message())


@pytest.mark.parametrize("sent", [(), bearer("kvcm_wrong"), (("authorization", "Basic x"),), bearer("")])
def test_without_a_token(control: Control, sent: Metadata) -> None:
    assert status_of(control, "ListStorage", LIST, sent) is grpc.StatusCode.UNAUTHENTICATED
    assert status_of(control, "RegisterInstance", register_request(), sent) is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    ("role", "reads", "changes", "administers"),
    [
        (Role.ENGINE, False, False, False),
        (Role.VIEWER, True, False, False),
        (Role.OPERATOR, True, True, False),
        (Role.ADMIN, True, True, True),
    ],
)
def test_roles(control: Control, role: Role, reads: bool, changes: bool, administers: bool) -> None:
    sent = bearer(make_token(role))
    for allowed, method, request in (
        (reads, "ListStorage", LIST),
        (changes, "CreateInstanceGroup", CREATE),
        (administers, "ListAccount", pb.ListAccountRequest()),
        (administers, "LeaderDemote", pb.LeaderDemoteRequest()),
    ):
        expected = grpc.StatusCode.OK if allowed else grpc.StatusCode.PERMISSION_DENIED
        assert status_of(control, method, request, sent) is expected, method


def test_revoked_token(control: Control) -> None:
    secret = make_token(Role.ADMIN)
    assert status_of(control, "ListStorage", LIST, bearer(secret)) is grpc.StatusCode.OK
    token_revoke(acting=ADMIN, token=ApiToken.objects.latest("id"))
    assert status_of(control, "ListStorage", LIST, bearer(secret)) is grpc.StatusCode.UNAUTHENTICATED


def test_scope_by_group(control: Control) -> None:
    make_group("chat")
    make_group("search")
    sent = bearer(make_token(Role.OPERATOR, groups=["chat"]))
    listed = control.call("ListInstanceGroup", pb.ListInstanceGroupRequest(), sent)
    assert [group.name for group in listed.instance_group] == ["chat"]
    create = pb.CreateInstanceGroupRequest(instance_group=group_message("new"))
    assert status_of(control, "CreateInstanceGroup", create, sent) is grpc.StatusCode.PERMISSION_DENIED
    foreign = control.call("GetInstanceGroup", pb.GetInstanceGroupRequest(name="search"), sent)
    assert foreign.header.status.code == pb.INTERNAL_ERROR


def test_internal_token_registers_and_nothing_else(control: Control) -> None:
    make_group()
    answer = control.call("RegisterInstance", register_request(), internal(control))
    assert answer.header.status.code == pb.OK
    assert AuditEntry.objects.get(action="instance.register").actor == "system:metadata"
    for method, request in (("ListStorage", LIST), ("CreateInstanceGroup", CREATE)):
        assert status_of(control, method, request, internal(control)) is grpc.StatusCode.UNAUTHENTICATED
    wrong = (("x-kvcm-internal", "guess"),)
    assert (
        status_of(control, "RegisterInstance", register_request(), wrong) is grpc.StatusCode.UNAUTHENTICATED
    )


def test_forwarded_call_needs_its_callers_token(control: Control) -> None:
    """Passed on by a metadata process: the internal token vouches for the address, not for the right."""
    make_group()
    forwarded = internal(control, ("x-kvcm-forwarded-for", "10.1.2.3"))
    for method, request in (("RegisterInstance", register_request()), ("ListStorage", LIST)):
        assert status_of(control, method, request, forwarded) is grpc.StatusCode.UNAUTHENTICATED
    allowed = (*forwarded, *bearer(make_token(Role.OPERATOR)))
    create = pb.CreateInstanceGroupRequest(instance_group=group_message("new"))
    assert control.call("CreateInstanceGroup", create, allowed).header.status.code == pb.OK
    entry = AuditEntry.objects.get(action="group.create", object_name="new")
    assert (entry.actor, entry.address) == ("operator-1", "10.1.2.3")
    # Anybody may claim an address; without the internal token it is not believed.
    claimed = (("x-kvcm-forwarded-for", "10.9.9.9"), *bearer(make_token(Role.OPERATOR)))
    control.call("RemoveInstanceGroup", pb.RemoveInstanceGroupRequest(name="new"), claimed)
    assert AuditEntry.objects.get(action="group.remove").address == "127.0.0.1"


def test_open_mode(start_control: Start) -> None:
    control = start_control(KVCM_ADMIN_AUTH="open")
    assert control.call("CreateInstanceGroup", CREATE).header.status.code == pb.OK
    assert AuditEntry.objects.get(action="group.create").actor == "anonymous"
    assert control.post("/api/listStorage", {})[0] == 200


def test_http_statuses(control: Control) -> None:
    assert control.post("/api/listStorage", {})[0] == 401
    assert control.post("/api/listStorage", {}, "kvcm_wrong")[0] == 401
    viewer = make_token(Role.VIEWER)
    assert control.post("/api/listStorage", {}, viewer)[0] == 200
    assert control.post("/api/addStorage", {}, viewer)[0] == 403


def test_an_admin_limited_to_groups_cannot_change_accounts(control: Control) -> None:
    sent = bearer(make_token(Role.ADMIN, groups=["chat"]))
    add = pb.AddAccountRequest(user_name="eve", password="a long enough secret", role=pb.ROLE_ADMIN)
    delete = pb.DeleteAccountRequest(user_name="admin-0")
    for method, request in (("AddAccount", add), ("DeleteAccount", delete)):
        assert status_of(control, method, request, sent) is grpc.StatusCode.PERMISSION_DENIED
