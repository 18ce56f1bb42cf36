"""DebugService: faults on purpose. Served only where KVCM_DEBUG_SERVICE is set."""

from __future__ import annotations

from apps.common.actor import Role
from apps.control.calls.call import DEBUG_SERVICE, Call, Rpc
from apps.control.services.faults import fault_inject, fault_remove, faults_clear
from kvcm_platform.core.errors import invalid
from kvcm_platform.core.faults import Fault
from kvcm_platform.pb import debug_service_pb2 as pb


def inject_fault(call: Call) -> pb.CommonResponse:
    request = call.request
    if request.fault_type != pb.FT_INTERNAL_ERROR:
        raise invalid("fault_type", f"{request.fault_type} is not a kind of fault")
    match request.fault_trigger_strategy:
        case pb.ALWAYS:
            fault = Fault()
        case pb.ONCE:
            fault = Fault(at_call=request.trigger_at_call)
        case other:
            raise invalid("fault_trigger_strategy", f"{other} is not a strategy")
    fault_inject(acting=call.acting, api=request.api_name, fault=fault)
    return pb.CommonResponse()


def remove_fault(call: Call) -> pb.CommonResponse:
    fault_remove(acting=call.acting, api=call.request.api_name)
    return pb.CommonResponse()


def clear_faults(call: Call) -> pb.CommonResponse:
    faults_clear(acting=call.acting)
    return pb.CommonResponse()


RPCS = (
    Rpc("InjectFault", inject_fault, Role.ADMIN, is_gated=False, service=DEBUG_SERVICE),
    Rpc("RemoveFault", remove_fault, Role.ADMIN, is_gated=False, service=DEBUG_SERVICE),
    Rpc("ClearFaults", clear_faults, Role.ADMIN, is_gated=False, service=DEBUG_SERVICE),
)
