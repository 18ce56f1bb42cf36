"""Instances over AdminService."""

from __future__ import annotations

from django.conf import settings

from apps.common.actor import Role
from apps.control import mapping
from apps.control.calls.call import Call, Rpc, done
from apps.instances.selectors import instance_get, instance_list
from apps.instances.services import instance_register, instance_remove
from kvcm_platform.pb import admin_service_pb2 as pb


def register_instance(call: Call) -> pb.CommonResponse:
    instance_register(
        acting=call.acting,
        registration=mapping.registration(call.request),
        shards=settings.KVCM_INDEX_SHARDS,
    )
    return done()


def remove_instance(call: Call) -> pb.CommonResponse:
    # instance_group is optional and not compared (WIRE.md 1.5).
    instance_remove(acting=call.acting, instance_id=call.required_text("instance_id"))
    return done()


def get_instance_info(call: Call) -> pb.GetInstanceInfoResponse:
    row = instance_get(acting=call.acting, instance_id=call.required_text("instance_id"))
    info = mapping.instance_info(row.entry(), row.group.global_quota_group_name)
    return pb.GetInstanceInfoResponse(instance_info=info)


def list_instance_info(call: Call) -> pb.ListInstanceInfoResponse:
    rows = instance_list(acting=call.acting).filter(group__name=call.required_text("instance_group_name"))
    return pb.ListInstanceInfoResponse(
        instance_info=[mapping.instance_info(row.entry(), row.group.global_quota_group_name) for row in rows]
    )


RPCS = (
    Rpc("RegisterInstance", register_instance, Role.ENGINE),
    Rpc("RemoveInstance", remove_instance, Role.OPERATOR),
    Rpc("GetInstanceInfo", get_instance_info, Role.VIEWER),
    Rpc("ListInstanceInfo", list_instance_info, Role.VIEWER),
)
