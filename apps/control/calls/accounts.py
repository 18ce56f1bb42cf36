"""Accounts over AdminService, and the snapshots that this version does not make."""

from __future__ import annotations

from google.protobuf.message import Message

from apps.accounts.selectors import account_list
from apps.accounts.services import account_create_leniently, account_remove
from apps.common.actor import Role
from apps.control.calls.call import Call, Rpc, done
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.pb import admin_service_pb2 as pb

_FIELDS = {"username": "user_name"}


def add_account(call: Call) -> pb.CommonResponse:
    role = Role.ADMIN if call.request.role == pb.ROLE_ADMIN else Role.ENGINE
    _, remark = account_create_leniently(
        acting=call.acting, username=call.request.user_name, password=call.request.password, role=role
    )
    return done(remark)


def delete_account(call: Call) -> pb.CommonResponse:
    account_remove(acting=call.acting, username=call.required_text("user_name"))
    return done()


def list_account(call: Call) -> pb.ListAccountResponse:
    return pb.ListAccountResponse(
        accounts=[
            pb.Account(
                user_name=user.username, role=pb.ROLE_ADMIN if user.role == Role.ADMIN else pb.ROLE_USER
            )
            for user in account_list()
        ]
    )


def snapshot(call: Call) -> Message:
    raise DomainError(Code.UNSUPPORTED, "configuration snapshots are not part of this version")


RPCS = (
    Rpc("AddAccount", add_account, Role.ADMIN, fields=_FIELDS),
    Rpc("DeleteAccount", delete_account, Role.ADMIN, fields=_FIELDS),
    Rpc("ListAccount", list_account, Role.ADMIN),
    Rpc("GenConfigSnapshot", snapshot, Role.ADMIN),
    Rpc("LoadConfigSnapshot", snapshot, Role.ADMIN),
)
