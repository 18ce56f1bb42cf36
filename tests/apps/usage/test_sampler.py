"""What the sampler writes: each second once, whatever happens to it and to the stores."""

from __future__ import annotations

from collections import defaultdict

import pytest
import redis
from django.db import DatabaseError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.common.redis_client import figures_client
from apps.usage.choices import PLATFORM, Kind, SeriesKey
from apps.usage.models import Position, Sample, SamplingGap, SecondsChunk, Series
from apps.usage.packing import unpack
from apps.usage.services import Sampler, roll_up
from apps.usage.services import sampler as sampler_module
from kvcm_platform.core.points import Amounts, Levels, Point
from kvcm_platform.index import keyspace, registry
from tests.apps.usage.conftest import Platform

pytestmark = pytest.mark.django_db(transaction=True)

GROUP = SeriesKey(Kind.GROUP, "chat")
STORAGE = SeriesKey(Kind.STORAGE, "nfs_a")
INSTANCE = SeriesKey(Kind.INSTANCE, "model-a", "chat")


def points() -> dict[SeriesKey, list[Point]]:
    found: dict[SeriesKey, list[Point]] = defaultdict(list)
    for chunk in SecondsChunk.objects.select_related("series").order_by("at"):
        found[chunk.series.key] += unpack(chunk.points, chunk.at)
    return found


def test_levels_of_every_kind(platform: Platform, run) -> None:
    platform.storage("nfs_b", 2)
    platform.instance("model-b", 11)
    platform.group("idle", 2, capacity=7)
    run(1)
    platform.hold("10:0", w1=(100, 1), s1=(200, 2), s2=(20, 1))
    platform.hold("11:0", s2=(300, 3), p1=(50, 5))
    platform.client.hset(keyspace.group(1), "r", 9)
    at = platform.now + 1
    assert run(7) > 0
    last = {key: own[-1].levels for key, own in points().items()}
    # By hand, from the vectors above: writing, serving, pending, reserved, blocks but pending ones, limit;
    # marks by default at 80 %, and 5 % of the limit below that (WIRE.md 2.4, DESIGN.md 6).
    chat = Levels(670, 100, 520, 50, 9, 7, 1000, 800, 750)
    assert last[GROUP] == chat
    assert last[SeriesKey(Kind.GROUP, "idle")] == Levels(limit_bytes=7, high_bytes=6, low_bytes=5)
    assert last[PLATFORM] == Levels(670, 100, 520, 50, 9, 7, 1007)
    assert last[STORAGE] == Levels(350, 100, 200, 50, 0, 3, 5000)
    assert last[SeriesKey(Kind.STORAGE, "nfs_b")] == Levels(320, 0, 320, 0, 0, 4, None)
    assert last[INSTANCE] == Levels(320, 100, 220, 0, 0, 4, None)
    assert last[SeriesKey(Kind.INSTANCE, "model-b", "chat")] == Levels(350, 0, 300, 50, 0, 3, None)
    assert [point.at for point in points()[GROUP]] == [at - 1, at]


def test_traffic_goes_to_its_second_instance_group_and_platform(platform: Platform, run) -> None:
    run(1)
    platform.hold(s1=(400, 4))
    run(1)
    at = platform.now
    platform.happen(requests=2, requested_blocks=10, hit_blocks=4, reads=[0.00003, 0.00015])
    platform.happen(requests=1, requested_blocks=5, hit_blocks=5, written_blocks=3, writes=[0.00003])
    platform.happen("gone", requests=1, requested_blocks=7)
    run(7)
    # 15 and 9 blocks of 16 tokens; three blocks of 400 / 4 bytes.
    mine = Amounts(3, 15, 9, 240, 144, 3, 300, read_us=[1, 0, 1], write_us=[1])
    for key in (INSTANCE, GROUP):
        assert [(p.at, p.amounts) for p in points()[key] if p.amounts] == [(at, mine)]
    everything = Amounts(4, 22, 9, 240, 144, 3, 300, read_us=[1, 0, 1], write_us=[1])
    assert [(p.at, p.amounts) for p in points()[PLATFORM] if p.amounts] == [(at, everything)]
    assert not any(p.amounts for p in points()[STORAGE])


def test_nothing_is_written_while_nothing_changes(platform: Platform, run) -> None:
    run(10)
    rows = SecondsChunk.objects.count()
    assert rows == 4, "the first look at platform, group, storage and instance"
    run(60)
    assert SecondsChunk.objects.count() == rows
    assert Position.objects.get().seconds_done > platform.now - 10


def test_a_successor_goes_on_where_the_points_end(platform: Platform, run) -> None:
    run(3)
    for _ in range(20):
        platform.happen(requests=1)
        run(1)
    # Killed here: what it read since the last flush is nowhere but in the facts.
    successor = Sampler(platform.clock)
    for _ in range(10):
        platform.happen(requests=1)
        run(1, successor)
    run(8, successor)
    seconds = [p.at for p in points()[INSTANCE] if p.amounts]
    assert len(seconds) == len(set(seconds)) == 30
    assert sum(p.amounts.requests for p in points()[INSTANCE]) == 30
    assert not SamplingGap.objects.exists()


def test_of_two_that_believe_to_lead_one_writes(platform: Platform, run) -> None:
    run(1)
    other = Sampler(platform.clock)
    for _ in range(40):
        platform.happen(requests=1)
        run(1)
        other.step(figures_client())
    run(8)
    assert sum(p.amounts.requests for p in points()[GROUP]) == 40
    times = [p.at for p in points()[GROUP]]
    assert len(times) == len(set(times))


def test_the_time_nobody_looked_is_a_gap(platform: Platform, run) -> None:
    run(10)
    begin = platform.now
    platform.happen(requests=5, at=begin + 100)
    platform.now += 200
    successor = Sampler(platform.clock)
    run(8, successor)
    assert [p.at for p in points()[GROUP] if p.amounts] == [begin + 100], (
        "what was done is known all the same"
    )
    gap = SamplingGap.objects.get()
    assert begin - 6 <= gap.begin_at <= begin + 1 and gap.end_at == begin + 201


def test_while_redis_is_away_the_history_waits(platform: Platform, run, settings, sampler) -> None:
    run(6)
    url, settings.KVCM_REDIS_URL = settings.KVCM_REDIS_URL, "unix:///nowhere/at/all.sock"
    platform.now += 30
    with pytest.raises(redis.RedisError):
        sampler.step(figures_client())
    settings.KVCM_REDIS_URL = url
    platform.happen(requests=1)
    run(8)
    assert sum(p.amounts.requests for p in points()[GROUP]) == 1
    assert SamplingGap.objects.count() == 1


@pytest.mark.parametrize("away", [20, 200])
def test_what_waited_for_the_database_is_written_once(
    platform: Platform, run, sampler, monkeypatch, away
) -> None:
    run(10)

    def fails(*_: object, **__: object) -> None:
        raise DatabaseError("the database is away")

    with monkeypatch.context() as broken:
        broken.setattr(sampler_module.SecondsChunk.objects, "bulk_create", fails)
        for _ in range(away):
            platform.happen(requests=1)
            platform.now += 1
            try:
                sampler.step(figures_client())
            except DatabaseError:
                continue
    run(8)
    assert sum(p.amounts.requests for p in points()[INSTANCE]) == away
    times = [p.at for p in points()[INSTANCE]]
    assert len(times) == len(set(times))


def test_an_object_that_goes_ends_at_nothing(platform: Platform, run) -> None:
    platform.hold(s1=(400, 4))
    run(8)
    platform.publish(removed=[("instance", "model-a")])
    gone_at = platform.now + 1
    run(8)
    assert points()[INSTANCE][-1] == Point(gone_at, Levels(), 0)
    row = Series.objects.get(kind=Kind.INSTANCE)
    assert row.ended_at == gone_at
    assert points()[STORAGE][-1].levels.used_bytes == 400, "what it left behind is still there"
    platform.instance(number=12)
    run(8)
    row.refresh_from_db()
    assert row.ended_at is None
    assert Series.objects.filter(kind=Kind.INSTANCE).count() == 1


def test_a_clock_behind_the_servers_loses_nothing(platform: Platform, run) -> None:
    """Ids of the server lie ahead of this process's clock, then behind it."""
    run(6)
    platform.happen(requests=1, at=platform.now + 50)
    run(10)
    platform.client.execute_command("XADD", keyspace.FACTS, "*", "d", _a_request())
    run(10)
    assert sum(p.amounts.requests for p in points()[GROUP]) == 2


def _a_request() -> str:
    return '{"process":"p","at":1,"window_ms":200,"rpc":{},"instances":{"model-a":{"requests":1}}}'


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("traffic"), st.integers(1, 9)),
        st.tuples(st.just("hold"), st.integers(0, 9)),
        st.tuples(st.just("pass"), st.integers(1, 12)),
        st.tuples(st.just("crash"), st.integers(0, 0)),
        st.tuples(st.just("second leader"), st.integers(0, 0)),
    ),
    max_size=40,
)


@given(EVENTS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_history_is_written_once(index: redis.Redis, events) -> None:
    """Against a list of what happened when."""
    index.flushall()
    for model in (SecondsChunk, Series, Position, SamplingGap):
        model.objects.all().delete()
    platform = Platform(index)
    registry.ensure_functions(index)
    platform.storage()
    platform.group()
    platform.instance()
    samplers = [Sampler(platform.clock)]
    happened: dict[int, int] = defaultdict(int)
    held: list[tuple[int, int]] = [(platform.now, 0)]
    samplers[0].step(figures_client())
    for what, amount in [*events, ("pass", 8)]:
        if what == "traffic":
            platform.happen(requests=amount)
            happened[platform.now] += amount
        elif what == "hold":
            platform.hold(s1=(amount, 1))
            held.append((platform.now, amount))
        elif what == "crash":
            samplers = [Sampler(platform.clock)]
        elif what == "second leader":
            samplers.append(Sampler(platform.clock))
        for _ in range(amount if what == "pass" else 0):
            platform.now += 1
            for one in samplers:
                one.step(figures_client())
    own = points()[INSTANCE]
    assert {p.at: p.amounts.requests for p in own if p.amounts} == dict(happened)
    times = [p.at for p in own]
    assert times == sorted(set(times))
    assert own[-1].levels.used_bytes == held[-1][1]


def test_an_entry_that_cannot_be_read_holds_up_no_other(platform: Platform, run) -> None:
    run(1)
    for entry in ("{", "[]", '{"process": "p"}', '{"rpc": {}, "instances": {"model-a": 5}}'):
        platform.client.execute_command("XADD", keyspace.FACTS, f"{platform.now * 1000}-*", "d", entry)
    platform.client.execute_command("XADD", keyspace.FACTS, f"{platform.now * 1000}-*", "other", "1")
    platform.happen(requests=3)
    run(8)
    assert sum(p.amounts.requests for p in points()[GROUP]) == 3


def test_a_redis_that_lost_everything_and_whose_clock_is_behind(platform: Platform, run) -> None:
    run(1)
    platform.happen(requests=1)
    run(8)
    platform.client.delete(keyspace.FACTS)
    run(1)
    platform.happen(at=platform.now - 3600, requests=100)
    run(1)
    for _ in range(3):
        platform.happen(at=platform.now - 3600, requests=1)
        run(1)
    run(8)
    # What its first look found may have been counted: an index that was restored has old entries.
    assert sum(p.amounts.requests for p in points()[GROUP]) == 4
    successor = Sampler(platform.clock)
    platform.happen(at=platform.now - 3600, requests=1)
    run(8, successor)
    assert sum(p.amounts.requests for p in points()[GROUP]) == 5


def test_quotas_as_large_as_they_may_be(platform: Platform, run) -> None:
    """Together they are more than databases and messages have numbers for."""
    most = (1 << 63) - 1
    for number in (2, 3, 4):
        platform.group(f"huge{number}", number, capacity=most)
    run(130)
    roll_up()
    of_platform = Sample.objects.filter(series__kind=Kind.PLATFORM.value)
    assert set(of_platform.values_list("limit_bytes", flat=True)) == {most}
