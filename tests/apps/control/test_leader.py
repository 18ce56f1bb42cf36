"""The lease of the background duties, on a real server with a clock in hand."""

from __future__ import annotations

import threading

import redis

from apps.control.leader import Leader
from kvcm_platform.index import keyspace
from kvcm_platform.pb import admin_service_pb2 as pb
from tests.apps.control.conftest import Control, Start
from tests.factories.actors import make_token
from tests.factories.objects import make_group
from tests.support.eventually import eventually


class Clock:
    """A monotonic clock that moves when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def leader(index: redis.Redis, node: str, clock: Clock, lease_ms: int = 10_000) -> Leader:
    return Leader(lambda: index, node, lease_ms, clock)


def test_one_leads_and_the_fence_rises(index: redis.Redis) -> None:
    clock = Clock()
    first, second = leader(index, "a", clock), leader(index, "b", clock)
    assert (first.step(), second.step()) == (True, False)
    assert (first.is_leader, first.fence) == (True, 1)
    assert first.leader_node_id() == "a"
    assert first.step()
    assert first.fence == 1
    first.release()
    assert (first.is_leader, second.step(), second.fence) == (False, True, 2)
    assert int(index.get(keyspace.LEADER_FENCE)) == 2


def test_lease_that_ran_out_is_not_believed(index: redis.Redis) -> None:
    clock = Clock()
    one = leader(index, "a", clock)
    one.step()
    clock.now += 10.0
    assert not one.is_leader
    index.set(keyspace.LEADER, "b|other")
    assert not one.step()
    one.release()
    assert index.get(keyspace.LEADER) == b"b|other"


def test_stand_down(index: redis.Redis) -> None:
    clock = Clock()
    one, two = leader(index, "a", clock), leader(index, "b", clock)
    one.step()
    one.stand_down(5000)
    assert index.ttl("kvcm:demoted:a") in {4, 5}
    assert (one.step(), one.is_standing_down) == (False, True)
    assert two.step()
    two.release()
    clock.now += 5.1
    assert one.step()


def test_leadership_over_the_protocol(control: Control) -> None:
    make_group()
    eventually(lambda: control.call("CheckHealth", pb.CheckHealthRequest()).is_leader)
    health = control.call("CheckHealth", pb.CheckHealthRequest())
    assert health.is_health
    assert health.elector_last_loop_time_ms > 0
    info = control.call("GetManagerClusterInfo", pb.GetManagerClusterInfoRequest())
    assert info.self_node_id == info.leader_node_id == control.env.node_id
    assert info.self_leader_expiration_time > 0
    update = pb.UpdateLeaderElectorConfigRequest(campaign_delay_time_ms=1500)
    assert control.call("UpdateLeaderElectorConfig", update).header.status.code == pb.OK
    config = control.call("GetLeaderElectorConfig", pb.GetLeaderElectorConfigRequest())
    assert config.campaign_delay_time_ms == 1500
    bad = pb.UpdateLeaderElectorConfigRequest(campaign_delay_time_ms=-1)
    assert control.call("UpdateLeaderElectorConfig", bad).header.status.code == pb.INVALID_ARGUMENT
    control.call("LeaderDemote", pb.LeaderDemoteRequest())
    refused = control.call("GetInstanceGroup", pb.GetInstanceGroupRequest(name="chat"))
    assert refused.header.status.code == pb.SERVER_NOT_LEADER
    assert not control.call("CheckHealth", pb.CheckHealthRequest()).is_leader
    eventually(lambda: control.call("CheckHealth", pb.CheckHealthRequest()).is_leader)
    again = control.call("GetInstanceGroup", pb.GetInstanceGroupRequest(name="chat"))
    assert again.header.status.code == pb.OK


def test_orderly_stop_hands_over_within_a_second(start_control: Start, index: redis.Redis) -> None:
    token = make_token()
    first = start_control(token, KVCM_NODE_ID="a")
    eventually(lambda: first.process.leader.is_leader)
    second = start_control(token, KVCM_NODE_ID="b")
    first.stop()
    assert second.process.leader.leader_node_id() != "a", "the lease was given back"
    eventually(lambda: second.process.leader.is_leader)
    assert (second.process.leader.fence, index.hkeys("kvcm:processes")[0][:10]) == (2, b"control:b:")


def test_unhealthy_without_redis(control: Control, settings) -> None:
    settings.KVCM_REDIS_URL = "unix:///nowhere/at/all.sock"
    assert not control.call("CheckHealth", pb.CheckHealthRequest()).is_health


def test_logger(control: Control) -> None:
    import logging

    before = logging.getLogger().level
    try:
        request = pb.UpdateLoggerRequest(log_level="ERROR")
        assert control.call("UpdateLogger", request).header.status.code == pb.OK
        assert logging.getLogger().level == logging.ERROR
        bad = control.call("UpdateLogger", pb.UpdateLoggerRequest(log_level="LOUD"))
        assert bad.header.status.code == pb.INVALID_ARGUMENT
    finally:
        logging.getLogger().setLevel(before)


def test_a_demotion_in_the_middle_of_a_step_holds(index: redis.Redis) -> None:
    """The step has looked whether it may campaign, and has not asked for the lease yet."""
    meanwhile: list[threading.Thread] = []

    class Client:
        def set(self, *arguments: object, **options: object) -> object:
            if "nx" in options and not meanwhile:
                meanwhile.append(threading.Thread(target=one.stand_down, args=(5000,)))
                meanwhile[0].start()
                meanwhile[0].join(0.3)
            return index.set(*arguments, **options)

        def __getattr__(self, name: str) -> object:
            return getattr(index, name)

    one = Leader(Client, "a", 1000)
    one.step()
    meanwhile[0].join(40)
    assert (one.is_leader, index.get("kvcm:leader")) == (False, None)
