"""Health, leadership and logging of this node, and the two calls on blocks, over AdminService."""

from __future__ import annotations

import logging

import redis
from django.db import DatabaseError, connection
from google.protobuf.message import Message

from apps.common.actor import Role
from apps.common.redis_client import index_client
from apps.control.calls.call import Call, Rpc, done
from apps.instances.selectors import instance_get
from kvcm_platform.core.errors import invalid
from kvcm_platform.pb import admin_service_pb2 as pb

_LEVELS = {"DEBUG": "DEBUG", "INFO": "INFO", "WARN": "WARNING", "WARNING": "WARNING", "ERROR": "ERROR"}
MAX_DELAY_MS = 3_600_000


def check_health(call: Call) -> pb.CheckHealthResponse:
    leader = call.node.leader
    return pb.CheckHealthResponse(
        is_leader=leader.is_leader,
        is_health=_stores_answer(),
        elector_last_loop_time_ms=round(leader.last_step_at * 1000),
    )


def _stores_answer() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return bool(index_client().ping())
    except (DatabaseError, redis.RedisError):
        return False


def get_manager_cluster_info(call: Call) -> pb.GetManagerClusterInfoResponse:
    env, leader = call.node.env, call.node.leader
    answer = pb.GetManagerClusterInfoResponse(
        info_updated_time=round(leader.last_step_at * 1000),
        self_leader_expiration_time=round(leader.expires_at * 1_000_000),
        self_node_id=env.node_id,
        leader_node_id=leader.leader_node_id(),
    )
    if answer.leader_node_id == env.node_id:
        answer.leader_endpoint.node_id = env.node_id
        answer.leader_endpoint.host = "localhost" if env.is_loopback else env.bind
        for name in ("meta_rpc_port", "meta_http_port", "admin_rpc_port", "admin_http_port"):
            setattr(answer.leader_endpoint, name, env[f"KVCM_{name.upper()}"])
    return answer


def leader_demote(call: Call) -> pb.CommonResponse:
    call.node.leader.stand_down(call.node.campaign_delay_ms)
    return done()


def get_leader_elector_config(call: Call) -> pb.GetLeaderElectorConfigResponse:
    return pb.GetLeaderElectorConfigResponse(campaign_delay_time_ms=call.node.campaign_delay_ms)


def update_leader_elector_config(call: Call) -> pb.CommonResponse:
    delay = call.request.campaign_delay_time_ms
    if not 0 <= delay <= MAX_DELAY_MS:
        raise invalid("campaign_delay_time_ms", f"must be between 0 and {MAX_DELAY_MS}, not {delay}")
    call.node.campaign_delay_ms = delay
    return done()


def update_logger(call: Call) -> pb.CommonResponse:
    level = _LEVELS.get(call.request.log_level.upper())
    if level is None:
        raise invalid("log_level", "must be DEBUG, INFO, WARN or ERROR")
    logging.getLogger(call.request.module_name or None).setLevel(level)
    return done()


def get_cache_meta(call: Call) -> Message:
    return _on_blocks(call, "GetCacheMeta", pb.GetCacheMetaResponse)


def remove_cache(call: Call) -> Message:
    return _on_blocks(call, "RemoveCache", pb.CommonResponse)


def _on_blocks(call: Call, method: str, response_class: type[Message]) -> Message:
    """Both packages declare the messages alike, so the bytes pass as they are.

    The data plane does not judge who calls: an instance outside the caller's groups is unknown here.
    """
    instance_get(acting=call.acting, instance_id=call.request.instance_id)
    answer = call.node.meta.forward(method, call.request.SerializeToString())
    return response_class.FromString(answer)


RPCS = (
    Rpc("CheckHealth", check_health, Role.VIEWER, is_gated=False),
    Rpc("GetManagerClusterInfo", get_manager_cluster_info, Role.VIEWER, is_gated=False),
    Rpc("LeaderDemote", leader_demote, Role.ADMIN, is_gated=False),
    Rpc("GetLeaderElectorConfig", get_leader_elector_config, Role.VIEWER, is_gated=False),
    Rpc("UpdateLeaderElectorConfig", update_leader_elector_config, Role.ADMIN, is_gated=False),
    Rpc("UpdateLogger", update_logger, Role.ADMIN, is_gated=False),
    Rpc("GetCacheMeta", get_cache_meta, Role.VIEWER),
    Rpc("RemoveCache", remove_cache, Role.OPERATOR),
)
