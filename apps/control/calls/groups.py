"""Instance groups over AdminService."""

from __future__ import annotations

from apps.common.actor import Role
from apps.control import mapping
from apps.control.calls.call import Call, Rpc, done
from apps.instances.selectors import group_details, group_get, group_list
from apps.instances.services import group_create, group_remove, group_update
from kvcm_platform.core.errors import invalid
from kvcm_platform.core.registry import Quota
from kvcm_platform.core.validation.groups import GroupSettings
from kvcm_platform.pb import admin_service_pb2 as pb

_BLANK = GroupSettings(storage_candidates=(), quota=Quota(capacity_bytes=0))


def create_instance_group(call: Call) -> pb.CommonResponse:
    message = call.required("instance_group")
    settings = mapping.group_settings(message, _BLANK)
    if not settings.reclaim.storage_unique_name:
        # Required by the protocol's form alone; REST leaves it out for "no preference".
        raise invalid("reclaim.storage_unique_name", "is required")
    changed = group_create(acting=call.acting, name=message.name, settings=settings, version=message.version)
    return done("; ".join(changed.warnings))


def update_instance_group(call: Call) -> pb.CommonResponse:
    message = call.required("instance_group")
    changed = group_update(
        acting=call.acting,
        name=message.name,
        change=lambda stored: mapping.group_settings(message, stored),
        expected_version=call.request.current_version,
        new_version=message.version,
    )
    return done("; ".join(changed.warnings))


def remove_instance_group(call: Call) -> pb.CommonResponse:
    group_remove(acting=call.acting, name=call.required_text("name"))
    return done()


def get_instance_group(call: Call) -> pb.GetInstanceGroupResponse:
    detail = group_get(acting=call.acting, name=call.required_text("name"))
    return pb.GetInstanceGroupResponse(instance_group=mapping.group_message(detail.entry))


def list_instance_group(call: Call) -> pb.ListInstanceGroupResponse:
    details = group_details(list(group_list(acting=call.acting)))
    return pb.ListInstanceGroupResponse(
        instance_group=[mapping.group_message(detail.entry) for detail in details]
    )


RPCS = (
    Rpc("CreateInstanceGroup", create_instance_group, Role.OPERATOR, fields=mapping.GROUP_FIELDS),
    Rpc("UpdateInstanceGroup", update_instance_group, Role.OPERATOR, fields=mapping.GROUP_FIELDS),
    Rpc("RemoveInstanceGroup", remove_instance_group, Role.OPERATOR),
    Rpc("GetInstanceGroup", get_instance_group, Role.VIEWER),
    Rpc("ListInstanceGroup", list_instance_group, Role.VIEWER),
)
