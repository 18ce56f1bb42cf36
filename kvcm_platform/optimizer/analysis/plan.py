"""Splits an analysis into jobs and says how long each may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.optimizer.analysis.capacities import Sizes, Wish, capacity_resolve, is_size
from kvcm_platform.optimizer.analysis.known_policies import KNOWN_POLICIES
from kvcm_platform.optimizer.analysis.spec import AnalysisSpec
from kvcm_platform.optimizer.curve import Events, Unit

AUTO_CAPACITIES: tuple[Wish, ...] = (
    *("0.5%", "1%", "2%", "5%", "10%", "15%", "20%", "30%", "40%", "50%", "75%", "100%"),
)
"""What is simulated where nobody names capacities; one-pass curves need none."""
JOB_SECONDS = 60.0
"""Jobs are made about so long: short enough to repeat after a crash, long against the start of a process."""
START_SECONDS = 2.0
"""Of a process that finds its code compiled, two of them at once: it loads the compiler all the same."""
FIRST_SECONDS = 6.0
"""More for the first job of a policy: its code is compiled. Kept from then on (`compiled.py`)."""
MOST_JOBS = 500
MOST_SECONDS = 48 * 3600.0

_RATES = {
    "answers": 10e6,
    "lru": 15e6,
    "ttl": 15e6,
    "belady": 60e6,
    "s3_fifo": 12e6,
    "sampled_lru": 2e6,
    "leaf_lru": 8e6,
    "compat:random_lru": 0.7e6,
    "compat:leaf_aware_lru": 2e6,
}
_USUAL_RATE = 15e6
"""Block accesses a second and capacity, where nothing was measured here: half of OPTIMIZER.md 3."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was seen here, by policy. A policy in neither has never run here.

    `rates`: block accesses a second and capacity. `starts`: seconds of a job that its work does not explain.
    """

    rates: Mapping[str, float] = field(default_factory=dict)
    starts: Mapping[str, float] = field(default_factory=dict)

    def rate(self, policy: str) -> float:
        return self.rates.get(policy) or usual_rate(policy)

    def start_seconds(self, policy: str) -> float:
        return self.starts.get(policy, START_SECONDS)

    def first_seconds(self, policy: str) -> float:
        """What the first job of a policy needs more than others."""
        return 0.0 if policy in self.rates or policy in self.starts else FIRST_SECONDS


def usual_rate(policy: str) -> float:
    """Block accesses a second and capacity where nothing was measured."""
    return _RATES.get(policy, _USUAL_RATE)


class Part(StrEnum):
    """How a job finds its answer."""

    ANSWERS = "answers"
    """Hot prefixes; needs no policy."""
    LRU = "lru"
    """All capacities in one pass, with windows, instances, types and histograms."""
    TTL = "ttl"
    BELADY = "belady"
    SIMULATE = "simulate"


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    instance_id: str
    block_tokens: int = 0
    block_bytes: int = 0
    group: str = ""
    requests: int = 0
    blocks: int = 0


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """What is known of a trace without opening it; `types` are the blocks of each."""

    requests: int
    blocks: int
    distinct_blocks: int
    span_us: int
    instances: tuple[InstanceFacts, ...] = ()
    types: Mapping[str, int] | None = None
    has_only_turns: bool = True
    """Whether no request reads and writes apart."""


@dataclass(frozen=True, slots=True)
class JobPlan:
    """One job: a policy at some capacities. `work` = block accesses, all its capacities together."""

    part: Part
    policy: str
    capacities: tuple[Wish, ...]
    title: str
    work: int
    estimate_seconds: float


def plan_to_json(plan: JobPlan) -> dict[str, Any]:
    return {
        "part": plan.part.value,
        "policy": plan.policy,
        "capacities": list(plan.capacities),
        "title": plan.title,
        "work": plan.work,
        "estimate_seconds": plan.estimate_seconds,
    }


def plan_from_json(data: Mapping[str, Any]) -> JobPlan:
    return JobPlan(
        **{**data, "part": Part(data["part"]), "capacities": tuple(data["capacities"])},
    )


def facts_from_json(data: Mapping[str, Any]) -> TraceFacts:
    """Out of what `reading.trace_facts` wrote."""
    known = InstanceFacts.__dataclass_fields__
    return TraceFacts(
        requests=data["requests"],
        blocks=data["blocks"],
        distinct_blocks=data["distinct_blocks"],
        span_us=data["span_us"],
        instances=tuple(
            InstanceFacts(**{name: value for name, value in row.items() if name in known})
            for row in data["instances"]
        ),
        types={row["name"]: row["blocks"] for row in data["types"]},
        has_only_turns=not any(
            count for kind, count in data["details"].get("events", {}).items() if kind != "turn"
        ),
    )


def plan_jobs(spec: AnalysisSpec, facts: TraceFacts, measured: Measured | None = None) -> tuple[JobPlan, ...]:
    """The jobs of an analysis, those that take all capacities at once first.

    Each job is a process of its own: its start counts, and the compiler where a policy never ran here. Raises
    INVALID_ARGUMENT for what the trace cannot answer, CAPACITY for more than MOST_JOBS or MOST_SECONDS.
    """
    chosen = _scope(spec, facts)
    _check_sizes(spec, chosen)
    blocks = _blocks_in_scope(spec, facts, chosen)
    rates = measured or Measured()
    jobs: list[JobPlan] = []
    if spec.hot_prefixes:
        jobs.append(_job(Part.ANSWERS, "answers", (), blocks, rates, "hot prefixes"))
    for policy in _policies(spec, facts, chosen):
        jobs += _jobs_of(spec, policy, _capacities(spec, chosen), blocks, rates, facts.has_only_turns)
    jobs = _with_first(jobs, rates)
    if len(jobs) > MOST_JOBS:
        raise DomainError(Code.CAPACITY, f"{len(jobs)} jobs are more than {MOST_JOBS}: name fewer capacities")
    seconds = sum(job.estimate_seconds for job in jobs)
    if seconds > MOST_SECONDS:
        raise DomainError(
            Code.CAPACITY,
            f"about {seconds / 3600:.0f} hours of computing are more than {MOST_SECONDS / 3600:.0f}: name"
            " fewer capacities or policies, or a part of the trace",
        )
    return tuple(jobs)


def _with_first(jobs: Sequence[JobPlan], measured: Measured) -> list[JobPlan]:
    """With what compiling takes, counted in the first job of each policy."""
    seen: set[str] = set()
    counted = []
    for job in jobs:
        more = 0.0 if job.policy in seen else measured.first_seconds(job.policy)
        counted.append(replace(job, estimate_seconds=round(job.estimate_seconds + more, 3)))
        seen.add(job.policy)
    return counted


def _policies(spec: AnalysisSpec, facts: TraceFacts, chosen: Sequence[InstanceFacts]) -> list[str]:
    """With the bound, where it is asked for and there is one. Raises INVALID_ARGUMENT for what cannot be."""
    names = list(spec.policies)
    if not facts.has_only_turns:
        for policy in ("ttl", "belady"):
            if policy in names:
                raise invalid("policies", f"{policy} needs a trace of turns; this one reads and writes apart")
    is_bytes = spec.unit == Unit.BYTES
    has_bound = facts.has_only_turns and (not is_bytes or block_bytes_of(chosen) > 0)
    for policy in names if is_bytes else ():
        if KNOWN_POLICIES[policy].is_compatible:
            raise invalid("policies", f"{policy} counts blocks: it has no unit bytes")
        if policy == "belady" and not has_bound:
            raise invalid("policies", "the clairvoyant bound in bytes needs blocks of one size")
    if spec.tiers and not _is_one_pass(spec, "lru", facts.has_only_turns):
        raise invalid("tiers", "follow from reads and writes at once alone")
    if spec.has_bound and "belady" not in names and has_bound:
        names.append("belady")
    return names


def _is_one_pass(spec: AnalysisSpec, policy: str, has_only_turns: bool) -> bool:
    """Whether one pass gives all capacities: reads and writes apart, or late, break that (OPTIMIZER.md 1)."""
    return policy == "lru" and has_only_turns and spec.events == Events.TURN and not spec.delay_seconds


def _jobs_of(
    spec: AnalysisSpec,
    policy: str,
    capacities: tuple[Wish, ...],
    blocks: int,
    rates: Measured,
    has_only_turns: bool,
) -> list[JobPlan]:
    if _is_one_pass(spec, policy, has_only_turns):
        times = 5 if spec.is_sampled else 1
        return [_job(Part.LRU, policy, spec.capacities, blocks * times, rates, "all capacities")]
    if policy == "ttl":
        return [_job(Part.TTL, policy, (), blocks, rates, "all times to live")]
    if policy == "belady":
        work = blocks * len(capacities)
        return [_job(Part.BELADY, policy, capacities, work, rates, _many(capacities))]
    rate = rates.rate(policy)
    at_once = max(1, int(JOB_SECONDS * rate / max(1, blocks)))
    pieces = [capacities[start : start + at_once] for start in range(0, len(capacities), at_once)]
    return [_job(Part.SIMULATE, policy, piece, blocks * len(piece), rates, _many(piece)) for piece in pieces]


def _job(
    part: Part, policy: str, capacities: tuple[Wish, ...], work: int, rates: Measured, what: str
) -> JobPlan:
    seconds = rates.start_seconds(policy) + work / rates.rate(policy)
    title = what if part is Part.ANSWERS else f"{policy}, {what}"
    return JobPlan(part, policy, capacities, title, work, round(seconds, 3))


def _many(capacities: Sequence[Wish]) -> str:
    return f"capacity {capacities[0]}" if len(capacities) == 1 else f"{len(capacities)} capacities"


def _capacities(spec: AnalysisSpec, chosen: Sequence[InstanceFacts]) -> tuple[Wish, ...]:
    wishes = spec.capacities or AUTO_CAPACITIES
    if spec.quota_bytes and (spec.unit == Unit.BYTES or block_bytes_of(chosen)):
        wishes = (*wishes, f"{spec.quota_bytes}B")
    return wishes


def _scope(spec: AnalysisSpec, facts: TraceFacts) -> list[InstanceFacts]:
    """The instances meant. Raises INVALID_ARGUMENT for names that the trace has not."""
    known = {one.instance_id: one for one in facts.instances}
    for name in spec.instances:
        if name not in known:
            raise invalid("instances", f"the trace has no instance {name!r}")
    for name in spec.types:
        if name not in (facts.types or {}):
            raise invalid("types", f"the trace has no type {name!r}")
    return [known[name] for name in spec.instances] if spec.instances else list(facts.instances)


def block_bytes_of(instances: Sequence[InstanceFacts]) -> int:
    """The size of every block of these instances; 0 where it is not known, or not one."""
    sizes = {one.block_bytes for one in instances}
    return sizes.pop() if len(sizes) == 1 else 0


def _check_sizes(spec: AnalysisSpec, chosen: Sequence[InstanceFacts]) -> None:
    if spec.unit == Unit.BYTES:
        without = [one.instance_id for one in chosen if not one.block_bytes]
        if without:
            raise invalid("unit", f"the trace does not say how many bytes a block of {without[0]!r} has")
        return
    sizes = Sizes(1, 1, block_bytes_of(chosen))
    for name, wishes in (
        ("capacities", spec.capacities),
        ("tiers", [w for pair in spec.tiers for w in pair]),
    ):
        for wish in wishes:
            if is_size(wish):
                capacity_resolve(wish, sizes, spec.unit, name)


def _blocks_in_scope(spec: AnalysisSpec, facts: TraceFacts, chosen: Sequence[InstanceFacts]) -> int:
    """About how many block accesses the scope has: shares of instances, types and time are independent."""
    blocks = float(facts.blocks)
    if spec.instances and facts.blocks:
        blocks = float(sum(one.blocks for one in chosen))
    if spec.types and facts.types and facts.blocks:
        blocks *= sum(facts.types[name] for name in spec.types) / facts.blocks
    span = facts.span_us / 1e6
    if span > 0:
        begin = min(span, spec.begin_seconds or 0.0)
        end = span if spec.end_seconds is None else min(span, spec.end_seconds)
        blocks *= max(0.0, end - begin) / span
    return max(1, round(blocks))
