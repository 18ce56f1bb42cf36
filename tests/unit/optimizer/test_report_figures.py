"""Whether a report says something else than the one before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvcm_platform.optimizer.report_figures import (
    ReportFigures,
    change_between,
    figures_from_json,
    figures_of,
)

GIB = 1 << 30
BEFORE = ReportFigures("lru", 20 * GIB, hit_rate=0.30, best_capacity_bytes=40.0 * GIB, knee_capacity=100)


def changed(**members: object):
    now = replace(BEFORE, **members)
    return change_between(BEFORE, now, hit_rate_threshold=0.02, capacity_threshold=0.1)


@pytest.mark.parametrize(
    ("members", "is_changed"),
    [
        ({}, False),
        ({"hit_rate": 0.319}, False),
        ({"hit_rate": 0.32}, True),
        ({"hit_rate": 0.28}, True),
        ({"best_capacity_bytes": 43.9 * GIB}, False),
        ({"best_capacity_bytes": 44.0 * GIB}, True),
        ({"best_capacity_bytes": 36.0 * GIB}, True),
        ({"knee_capacity": 1000}, False),
        ({"best_capacity_bytes": None, "knee_capacity": 109}, False),
        ({"best_capacity_bytes": None, "knee_capacity": 111}, True),
        ({"best_capacity_bytes": None, "knee_capacity": 1000, "unit": "bytes"}, False),
        ({"hit_rate": None, "best_capacity_bytes": None, "knee_capacity": None}, False),
    ],
)
def test_what_moved_by_its_threshold_is_a_change(members: dict, is_changed: bool) -> None:
    assert changed(**members).is_changed is is_changed


def test_change_in_words() -> None:
    assert changed(hit_rate=0.35, best_capacity_bytes=60.0 * GIB, quota_bytes=30 * GIB).sentence == (
        "The hit rate at the quota went from 30.0% to 35.0%, the quota went from 20 GiB to 30 GiB,"
        " the best capacity went from 40 GiB to 60 GiB."
    )
    nothing = ReportFigures("lru", 20 * GIB)
    change = change_between(nothing, BEFORE, hit_rate_threshold=0.02, capacity_threshold=0.1)
    assert (change.is_changed, change.sentence) == (False, "Nothing can be compared with the report before.")


def test_figures_come_out_of_a_summary_and_survive_their_json() -> None:
    summary = {
        "unlimited_hit_rate": 0.5,
        "quota_bytes": 20 * GIB,
        "policies": [
            {
                "policy": "lru",
                "unit": "bytes",
                "knee": {"capacity": 7, "hit_rate": 0.2},
                "hit_rate_at_quota": 0.3,
                "token_hit_rate_at_quota": 0.31,
                "best": {"capacity_bytes": 40.0, "net_money_month": 12.0},
            },
            {"policy": "lfu", "unit": "bytes", "knee": None, "hit_rate_at_quota": 0.4, "best": None},
        ],
    }
    found = figures_of(summary, {"requests": 5, "blocks": 50, "span_us": 2_000_000})
    assert found == ReportFigures(
        policy="lru",
        quota_bytes=20 * GIB,
        hit_rate=0.3,
        token_hit_rate=0.31,
        unlimited_hit_rate=0.5,
        knee_capacity=7,
        knee_hit_rate=0.2,
        unit="bytes",
        best_capacity_bytes=40.0,
        net_money_month=12.0,
        requests=5,
        blocks=50,
        span_seconds=2.0,
    )
    assert figures_from_json({**found.to_json(), "newer": 1}) == found
    reason = {**summary, "policies": [{**summary["policies"][0], "knee": None, "best": {"reason": "no"}}]}
    assert figures_of(reason, {}).best_capacity_bytes is None
