"""TraceQuery over the control door: what REST says, by group or by instance."""

from __future__ import annotations

import json
import time
from pathlib import Path

import grpc
import pytest
import redis

from apps.common.actor import Role
from kvcm_platform.core.validation.values import INT64
from kvcm_platform.index import keyspace
from kvcm_platform.pb import kvcm_v1_pb2 as pb
from kvcm_platform.pb.kvcm_v1_pb2_grpc import OptimizerServiceStub
from tests.apps.control.conftest import Start
from tests.factories.actors import make_token
from tests.factories.objects import make_group, make_instance, make_storage

pytestmark = pytest.mark.django_db(transaction=True)


def told(client: redis.Redis, number: int, capacity_bytes: int = 1000) -> None:
    """As a round leaves it."""
    now = round(time.time() * 1000)
    data = {
        **{"group": "chat", "at_ms": now, "since_ms": now - 5000, "window_ms": 900_000},
        **{"capacity_bytes": capacity_bytes, "factors": [0.5, 1.0, 2.0, 4.0], "unique_blocks": [1, 2, 4, 8]},
        **{"sampled_ratio": 1.0, "sampled_blocks": 8, "has_seen_all": True, "lost_calls": 0},
        "total": {"asked": 100, "real_hits": 30, "hits": [20, 40, 60, 80]},
        "instances": {"model-a": {"asked": 10, "real_hits": 3, "hits": [1, 2, 3, 4]}},
    }
    client.hset(keyspace.ESTIMATES, str(number), json.dumps(data))


def test_trace_query(start_control: Start, index: redis.Redis, sent: list[str], tmp_path: Path) -> None:
    make_storage(tmp_path)
    group = make_group()
    make_instance()
    control = start_control()
    token = (("authorization", f"Bearer {make_token(Role.VIEWER)}"),)
    with grpc.insecure_channel(f"127.0.0.1:{control.process.rpc_port}") as channel:
        ask = OptimizerServiceStub(channel).TraceQuery
        answer = ask(pb.TraceQueryRequest(instance_group="chat"), metadata=token)
        assert answer.header.status.code == pb.SERVICE_NOT_READY and "nothing" in answer.header.status.message
        told(index, group.entry.number)
        answer = ask(pb.TraceQueryRequest(trace_id="t", instance_group="chat"), metadata=token)
        assert answer.header.status.code == pb.OK and answer.header.request_id.startswith("t_")
        assert (answer.cache_hit_count, answer.total_blocks, answer.current_unique_keys) == (40, 100, 2)
        assert (answer.real_hit_count, answer.window_seconds, answer.has_seen_all) == (30, 900, True)
        assert answer.at_ms - answer.since_ms == 5000
        found = [(one.factor, one.capacity_bytes, one.cache_hit_count) for one in answer.capacities]
        assert found == [(0.5, 500, 20), (1.0, 1000, 40), (2.0, 2000, 60), (4.0, 4000, 80)]
        assert [one.hit_rate for one in answer.capacities] == [0.2, 0.4, 0.6, 0.8]
        # Four times what some set for "no limit" is more than there are numbers for.
        told(index, group.entry.number, INT64)
        answer = ask(pb.TraceQueryRequest(instance_group="chat"), metadata=token)
        assert answer.header.status.code == pb.OK and answer.capacities[-1].capacity_bytes == INT64
        assert [one.cache_hit_count for one in answer.capacities] == [20, 40, 60, 80]
        told(index, group.entry.number)
        answer = ask(pb.TraceQueryRequest(instance_id="model-a"), metadata=token)
        assert (answer.cache_hit_count, answer.total_blocks, answer.real_hit_count) == (2, 10, 3)
        for request, code in (
            (pb.TraceQueryRequest(), pb.INVALID_ARGUMENT),
            (pb.TraceQueryRequest(instance_group="code"), pb.INTERNAL_ERROR),
            (pb.TraceQueryRequest(instance_id="model-b"), pb.INSTANCE_NOT_EXIST),
            (pb.TraceQueryRequest(instance_id="model-a", instance_group="code"), pb.INVALID_ARGUMENT),
        ):
            assert ask(request, metadata=token).header.status.code == code
        other = (("authorization", f"Bearer {make_token(Role.VIEWER, {'code'})}"),)
        answer = ask(pb.TraceQueryRequest(instance_group="chat"), metadata=other)
        assert not answer.total_blocks and answer.header.status.code != pb.OK
        with pytest.raises(grpc.RpcError):
            ask(pb.TraceQueryRequest(instance_group="chat"))
    status, body = control.post("/api/traceQuery", {"instance_group": "chat"}, make_token(Role.VIEWER))
    assert status == 200 and body["cache_hit_count"] == "40" and len(body["capacities"]) == 4
