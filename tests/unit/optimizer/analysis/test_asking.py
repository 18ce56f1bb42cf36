"""What may be asked of an analysis, and the jobs that come of it. Without compiled code."""

from __future__ import annotations

from typing import Any

import pytest

from kvcm_platform.core.errors import DomainError
from kvcm_platform.optimizer.analysis.capacities import Sizes, capacities_resolve
from kvcm_platform.optimizer.analysis.plan import (
    FIRST_SECONDS,
    START_SECONDS,
    InstanceFacts,
    Measured,
    Part,
    TraceFacts,
    plan_from_json,
    plan_jobs,
    plan_to_json,
)
from kvcm_platform.optimizer.analysis.spec import spec_from_json, spec_to_json

SIZES = Sizes(distinct_blocks=1000, distinct_bytes=4_096_000, block_bytes=4096)


@pytest.mark.parametrize(
    ("wishes", "unit", "expected"),
    [
        ([5, "7", 5], "blocks", (5, 7)),
        (["10%", "0.05%", "100%"], "blocks", (1, 100, 1000)),
        (["1MiB", "1MB", "4096B"], "blocks", (1, 244, 256)),
        (["10%", "2KiB", 9], "bytes", (9, 2048, 409_600)),
        (["1.5 GiB"], "bytes", (3 << 29,)),
    ],
)
def test_capacities_as_people_write_them(wishes: list, unit: str, expected: tuple[int, ...]) -> None:
    assert capacities_resolve(wishes, SIZES, unit) == expected


def test_sizes_need_blocks_of_one_size() -> None:
    with pytest.raises(DomainError, match="differ"):
        capacities_resolve(["1GiB"], Sizes(1000, 0, 0), "blocks")


@pytest.mark.parametrize(
    "wish", [0, -1, True, 1.5, "", "ten", "0%", "1e9", "1.5", "-3", "5GiB/s", None, "9" * 50]
)
def test_what_is_no_capacity(wish: Any) -> None:
    with pytest.raises(DomainError) as error:
        spec_from_json({"capacities": [wish]})
    assert error.value.field == "capacities"


def test_a_spec_survives_its_form() -> None:
    spec = spec_from_json(
        {
            "policies": ["lru", "s3_fifo"],
            "capacities": [10, "5%"],
            "tiers": [[5, "10%"]],
            "instances": ["a"],
            "ttl_seconds": [],
            "parameters": {"s3_fifo": {"small_ratio": 0.2}},
            "cost": {"model": "qwen3-8b"},
        }
    )
    assert spec_from_json(spec_to_json(spec)) == spec
    assert spec_from_json({"capacities": "auto"}).capacities == ()


FACTS = TraceFacts(
    requests=1000,
    blocks=1_000_000,
    distinct_blocks=400_000,
    span_us=100_000_000,
    instances=(
        InstanceFacts("a", 16, 4096, "g", 600, 750_000),
        InstanceFacts("b", 16, 4096, "g", 400, 250_000),
    ),
    types={"chat": 500_000, "": 500_000},
)


def jobs(**members: Any):
    return plan_jobs(spec_from_json({"hot_prefixes": 0, "has_bound": False, **members}), FACTS)


def test_one_pass_is_one_job_and_a_simulated_policy_has_its_capacities_split() -> None:
    found = jobs(policies=["lru", "sampled_lru"], capacities=[1, 2, 3])
    assert [(job.part, job.policy) for job in found] == [(Part.LRU, "lru"), (Part.SIMULATE, "sampled_lru")]
    assert found[1].work == 3_000_000
    slow = plan_jobs(
        spec_from_json(
            {"policies": ["sampled_lru"], "capacities": [1, 2, 3], "hot_prefixes": 0, "has_bound": False}
        ),
        FACTS,
        Measured({"sampled_lru": 20_000.0}),
    )
    # 50 s a capacity at what was measured: each is a job of its own.
    assert [job.capacities for job in slow] == [(1,), (2,), (3,)]
    assert [round(job.estimate_seconds) for job in slow] == [52, 52, 52]
    assert [plan_from_json(plan_to_json(job)) for job in slow] == list(slow)


def test_every_job_pays_for_its_process_and_the_first_of_a_policy_for_the_compiler() -> None:
    wish = {"policies": ["lfu", "sieve"], "capacities": [1], "hot_prefixes": 0, "has_bound": False}
    work = 1_000_000 / 15e6
    new = plan_jobs(spec_from_json(wish), FACTS)
    assert [job.estimate_seconds for job in new] == [
        pytest.approx(START_SECONDS + FIRST_SECONDS + work, 0.01)
    ] * 2
    known = plan_jobs(spec_from_json(wish), FACTS, Measured(starts={"lfu": 9.0, "sieve": 1.0}))
    assert [job.estimate_seconds for job in known] == [
        pytest.approx(9 + work, 0.01),
        pytest.approx(1 + work, 0.01),
    ]
    # A second job of the policy finds the code that the first one compiled.
    many = plan_jobs(
        spec_from_json({**wish, "policies": ["sampled_lru"], "capacities": list(range(1, 201))}), FACTS
    )
    assert [len(job.capacities) for job in many] == [120, 80]
    starts = [job.estimate_seconds - 0.5 * len(job.capacities) for job in many]
    assert starts == [pytest.approx(START_SECONDS + FIRST_SECONDS), pytest.approx(START_SECONDS)]


def test_reads_and_writes_apart_have_no_curve_in_one_pass() -> None:
    for members in ({"events": "read_write"}, {"delay_seconds": 10}):
        (job,) = jobs(policies=["lru"], capacities=[5], **members)
        assert job.part is Part.SIMULATE
        with pytest.raises(DomainError) as error:
            jobs(policies=["lru"], tiers=[[1, 2]], **members)
        assert error.value.field == "tiers"


def test_a_scope_is_a_part_of_the_work() -> None:
    whole, half, one, early = (
        jobs(policies=["fifo"], capacities=[5], **scope)[0].work
        for scope in (
            {},
            {"types": ["chat"]},
            {"instances": ["b"]},
            {"instances": ["a"], "types": [""], "begin_seconds": 50, "end_seconds": 60},
        )
    )
    assert (whole, half, one, early) == (1_000_000, 500_000, 250_000, 37_500)


def test_the_quota_is_among_the_capacities() -> None:
    (job,) = jobs(policies=["fifo"], capacities=[5], quota_bytes=8192)
    assert job.capacities == (5, "8192B")


@pytest.mark.parametrize(
    ("members", "field", "code"),
    [
        (
            {"policies": ["sampled_lru"], "capacities": list(range(1, 200)), "slow": 1.0},
            None,
            "reach_max_entity_capacity",
        ),
        ({"unit": "bytes", "instances": ["c"]}, "instances", "invalid_argument"),
        ({"policies": ["compat:lru"], "unit": "bytes"}, "policies", "invalid_argument"),
    ],
)
def test_what_cannot_be_or_would_take_too_long(members: dict, field: str | None, code: str) -> None:
    seen = Measured({"sampled_lru": members.pop("slow")}) if "slow" in members else None
    with pytest.raises(DomainError) as error:
        plan_jobs(spec_from_json(members), FACTS, seen)
    assert (error.value.field, error.value.code) == (field, code)


def test_a_trace_of_reads_and_writes_has_no_bound() -> None:
    apart = TraceFacts(10, 100, 50, 1_000_000, FACTS.instances, {"": 100}, has_only_turns=False)
    found = plan_jobs(spec_from_json({"policies": ["lru"], "hot_prefixes": 0}), apart)
    assert [(job.part, job.policy) for job in found] == [(Part.SIMULATE, "lru")]
    with pytest.raises(DomainError) as error:
        plan_jobs(spec_from_json({"policies": ["ttl"]}), apart)
    assert error.value.field == "policies"
