"""Sliding windows, against sums done by hand."""

from __future__ import annotations

from apps.live.traffic import BLOCKS_SECONDS, RATE_SECONDS, Traffic
from kvcm_platform.index.facts import BUCKETS_US, Facts, RpcFacts

NOW = 1_800_000_000.0


def facts(
    at: float, *, requested: int = 0, hit: int = 0, rpc: str = "", count: int = 0, bucket: int = 0
) -> Facts:
    buckets = [0] * (len(BUCKETS_US) + 1)
    buckets[bucket] = count
    rpcs = {rpc: RpcFacts(count, 0, tuple(buckets))} if rpc else {}
    amounts = {"requested_blocks": requested, "hit_blocks": hit}
    return Facts("p", int(at * 1000), 200, rpcs, {"i": amounts})


def test_blocks_are_summed_over_five_minutes() -> None:
    traffic = Traffic()
    traffic.add(facts(NOW - BLOCKS_SECONDS - 5, requested=1000, hit=1000), NOW)
    traffic.add(facts(NOW - BLOCKS_SECONDS + 5, requested=10, hit=4), NOW)
    traffic.add(facts(NOW, requested=30, hit=16), NOW)
    assert traffic.blocks(NOW) == (40, 20)
    assert traffic.blocks(NOW).hit_rate == 0.5
    assert traffic.blocks(NOW + 10) == (30, 16)
    assert traffic.blocks(NOW + BLOCKS_SECONDS + 1) == (0, 0)


def test_hit_rate_of_nothing_is_unknown() -> None:
    assert Traffic().blocks(NOW).hit_rate is None


def test_late_flushes_of_several_processes_find_their_second() -> None:
    traffic = Traffic()
    for at in (NOW, NOW - 2, NOW - 1, NOW - 2, NOW - 400):
        traffic.add(facts(at, requested=1), NOW)
    assert traffic.blocks(NOW).requested == 4
    assert traffic.blocks(NOW - 2 + BLOCKS_SECONDS).requested == 2


def test_a_clock_that_runs_ahead_does_not_hide_its_facts() -> None:
    traffic = Traffic()
    traffic.add(facts(NOW + 3600, requested=7), NOW)
    assert traffic.blocks(NOW).requested == 7


def test_rates_cover_ten_seconds_and_name_the_busiest_first() -> None:
    traffic = Traffic()
    traffic.add(facts(NOW - RATE_SECONDS - 1, rpc="Old", count=1000), NOW)
    traffic.add(facts(NOW - 3, rpc="GetCacheLocation", count=15, bucket=0), NOW)
    traffic.add(facts(NOW - 1, rpc="GetCacheLocation", count=5, bucket=3), NOW)
    traffic.add(facts(NOW, rpc="StartWriteCache", count=10, bucket=1), NOW)
    rates = traffic.rpcs(NOW)
    assert [(rate.name, rate.per_second) for rate in rates] == [
        ("GetCacheLocation", 2.0),
        ("StartWriteCache", 1.0),
    ]
    assert rates[0].p50_ms == BUCKETS_US[0] / 1000
    assert rates[0].p99_ms == BUCKETS_US[3] / 1000
    assert traffic.requests_per_second(NOW) == 3.0


def test_memory_is_bounded_by_the_window() -> None:
    traffic = Traffic()
    for second in range(2000):
        at = NOW + second
        traffic.add(facts(at, requested=1), at)
        traffic.forget(at)
    assert len(traffic._seconds) <= BLOCKS_SECONDS + 1
