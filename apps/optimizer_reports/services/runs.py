"""What people do with optimizer runs: ask what one would take, start, cancel, repeat, name, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.db import transaction
from django.utils import timezone

from apps.audit.services import audit_record
from apps.common.actor import Actor, Role
from apps.common.queue import OPTIMIZER_TASK, enqueue
from apps.instances.selectors import group_get
from apps.optimizer_reports.choices import (
    OPEN_RUNS,
    JobKind,
    JobState,
    RunOrigin,
    RunState,
    TraceState,
)
from apps.optimizer_reports.models import (
    OptimizerJob,
    OptimizerRun,
    OptimizerRunGroup,
    OptimizerTrace,
)
from apps.optimizer_reports.selectors.runs import jobs_waiting, measured, open_estimate_seconds, run_get
from apps.optimizer_reports.selectors.traces import trace_get
from apps.optimizer_reports.services.reading import facts_of
from apps.optimizer_reports.services.run_ends import run_settle
from apps.optimizer_reports.services.traces import NAME_AT_MOST
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.validation.values import text
from kvcm_platform.optimizer.analysis.plan import JobPlan, facts_from_json, plan_jobs, plan_to_json
from kvcm_platform.optimizer.analysis.spec import AnalysisSpec, spec_from_json, spec_to_json

MOST_OPEN_RUNS = 50
MOST_OPEN_JOBS = 2000


@dataclass(frozen=True, slots=True)
class RunWish:
    """What is to be analysed. `spec` has the members of AnalysisSpec.

    `group` is the instance group whose quota the result is held against; "" = that of the trace's instances,
    where it is one that exists and may be seen.
    """

    trace_id: int
    spec: Mapping[str, Any]
    name: str = ""
    note: str = ""
    group: str = ""
    origin: RunOrigin = RunOrigin.REQUEST


@dataclass(frozen=True, slots=True)
class RunEstimate:
    """What a run would take. `seconds` are of computing; as many jobs as workers carry out go on at a time.

    `waiting_seconds` is the computing that is asked for before it.
    """

    spec: AnalysisSpec
    jobs: tuple[JobPlan, ...]
    seconds: float
    waiting_seconds: float
    group: str


def run_estimate(*, acting: Actor, wish: RunWish) -> RunEstimate:
    """A dry run: all that run_create checks, and nothing is begun. Raises as run_create."""
    trace = trace_get(acting=acting, trace_id=wish.trace_id)
    return _estimate(acting, wish, trace)


def run_create(*, acting: Actor, wish: RunWish) -> OptimizerRun:
    """Put a run and its jobs on record; workers begin at once.

    Raises NOT_FOUND for the trace or the group, INVALID_ARGUMENT with the member, CONFLICT for a trace that
    is not ready, CAPACITY or TOO_MANY for more than is taken on.
    """
    acting.require(Role.OPERATOR)
    trace = trace_get(acting=acting, trace_id=wish.trace_id)
    plan = _estimate(acting, wish, trace)
    with transaction.atomic():
        # Locked, so that it is not deleted between the check and the row that refers to it.
        locked = OptimizerTrace.objects.select_for_update().filter(pk=trace.pk).first()
        if locked is None:
            raise DomainError(Code.NOT_FOUND, f"trace {trace.pk} does not exist", field="trace")
        _require_ready(locked)
        _require_room(len(plan.jobs))
        run = _insert(acting, wish, locked, plan)
        after = {"id": run.pk, "trace": locked.name, "policies": list(plan.spec.policies)}
        audit_record(
            acting=acting, action="optimizer_run.create", kind="optimizer_run", name=str(run.pk), after=after
        )
        transaction.on_commit(partial(enqueue, OPTIMIZER_TASK))
    return run


def _insert(acting: Actor, wish: RunWish, trace: OptimizerTrace, plan: RunEstimate) -> OptimizerRun:
    run = OptimizerRun.objects.create(
        name=wish.name,
        note=wish.note,
        origin=wish.origin.value,
        trace=trace,
        trace_name=trace.name,
        trace_facts=facts_of(trace),
        spec=spec_to_json(plan.spec),
        group_name=plan.group,
        is_of_all_groups=trace.is_of_all_groups,
        estimate_seconds=plan.seconds,
        asked_by=acting.name[:150],
        asked_at=timezone.now(),
    )
    OptimizerRunGroup.objects.bulk_create(
        OptimizerRunGroup(run=run, name=group.name) for group in trace.groups.all()
    )
    OptimizerJob.objects.bulk_create(
        OptimizerJob(
            kind=JobKind.ANALYSE.value,
            run=run,
            number=number,
            policy=job.policy,
            title=job.title[:200],
            plan=plan_to_json(job),
            work=job.work,
            estimate_seconds=job.estimate_seconds,
        )
        for number, job in enumerate(plan.jobs)
    )
    return run


def _estimate(acting: Actor, wish: RunWish, trace: OptimizerTrace) -> RunEstimate:
    text("name", wish.name, is_required=False, at_most=NAME_AT_MOST)
    spec = spec_from_json(wish.spec)
    _require_ready(trace)
    group = _group(acting, wish.group, trace)
    if group:
        quota = group_get(acting=acting, name=group).settings.quota.capacity_bytes
        spec = replace(spec, quota_bytes=max(0, quota))
    jobs = plan_jobs(spec, facts_from_json(facts_of(trace)), measured([*spec.policies, "answers", "belady"]))
    seconds = sum(job.estimate_seconds for job in jobs)
    return RunEstimate(spec, jobs, round(seconds, 3), open_estimate_seconds(), group)


def _group(acting: Actor, named: str, trace: OptimizerTrace) -> str:
    if named:
        group_get(acting=acting, name=named, field="instance_group")
        return named
    of_trace = {str(row["group"]) for row in trace.instances if row.get("group")}
    if len(of_trace) != 1:
        return ""
    name = of_trace.pop()
    try:
        group_get(acting=acting, name=name)
    except DomainError:
        return ""
    return name


def _require_ready(trace: OptimizerTrace) -> None:
    if trace.state != TraceState.READY:
        raise DomainError(
            Code.CONFLICT, f"trace {trace.name} is not ready: it is {trace.state}", field="trace"
        )


def _require_room(jobs: int) -> None:
    if OptimizerRun.objects.filter(state__in=OPEN_RUNS).count() >= MOST_OPEN_RUNS:
        raise DomainError(Code.TOO_MANY, f"{MOST_OPEN_RUNS} optimizer runs are not over yet")
    waiting = jobs_waiting()
    if waiting + jobs > MOST_OPEN_JOBS:
        raise DomainError(Code.TOO_MANY, f"{waiting} jobs wait already, at most {MOST_OPEN_JOBS} may")


def run_cancel(*, acting: Actor, run_id: int) -> OptimizerRun:
    """No further job begins, and those that run end within seconds; what was found stays.

    Raises NOT_FOUND, CONFLICT for a run that is over.
    """
    acting.require(Role.OPERATOR)
    with transaction.atomic():
        run = _locked(acting, run_id)
        if run.state not in OPEN_RUNS:
            raise DomainError(Code.CONFLICT, f"optimizer run {run_id} is over: {run.state}")
        run.is_cancel_asked = True
        run.save(update_fields=["is_cancel_asked"])
        queued = run.jobs.filter(state=JobState.QUEUED.value)
        queued.update(state=JobState.CANCELLED.value, ended_at=timezone.now())
        audit_record(
            acting=acting, action="optimizer_run.cancel", kind="optimizer_run", name=str(run_id), after={}
        )
    run_settle(run_id)
    return run_get(acting=acting, run_id=run_id)


def run_retry(*, acting: Actor, run_id: int) -> OptimizerRun:
    """Do once more what failed or was cancelled; what was found stays.

    Raises NOT_FOUND, CONFLICT for a run that is not over, or all of whose jobs are done, or whose trace is
    gone.
    """
    acting.require(Role.OPERATOR)
    with transaction.atomic():
        run = _locked(acting, run_id)
        if run.state in OPEN_RUNS:
            raise DomainError(Code.CONFLICT, f"optimizer run {run_id} is not over: {run.state}")
        if run.trace is None:
            raise DomainError(Code.CONFLICT, f"the trace of optimizer run {run_id} was deleted")
        _require_ready(OptimizerTrace.objects.select_for_update().get(pk=run.trace_id))
        again = run.jobs.filter(state__in=[JobState.FAILED.value, JobState.CANCELLED.value])
        count = again.count()
        if not count:
            raise DomainError(Code.CONFLICT, f"all jobs of optimizer run {run_id} are done")
        _require_room(count)
        again.update(
            state=JobState.QUEUED.value,
            tries=0,
            progress=0.0,
            reason="",
            holder="",
            seen_at=None,
            started_at=None,
            ended_at=None,
        )
        run.state, run.is_cancel_asked, run.reason = RunState.QUEUED.value, False, ""
        run.ended_at, run.summary = None, None
        run.save()
        audit_record(
            acting=acting,
            action="optimizer_run.retry",
            kind="optimizer_run",
            name=str(run_id),
            after={"jobs": count},
        )
        transaction.on_commit(partial(enqueue, OPTIMIZER_TASK))
    return run_get(acting=acting, run_id=run_id)


@transaction.atomic
def run_update(
    *, acting: Actor, run_id: int, name: str | None = None, note: str | None = None
) -> OptimizerRun:
    """Raises NOT_FOUND, INVALID_ARGUMENT."""
    acting.require(Role.OPERATOR)
    run = _locked(acting, run_id)
    before = {"name": run.name, "note": run.note}
    if name is not None:
        run.name = text("name", name, is_required=False, at_most=NAME_AT_MOST)
    if note is not None:
        run.note = note
    run.save(update_fields=["name", "note"])
    audit_record(
        acting=acting,
        action="optimizer_run.update",
        kind="optimizer_run",
        name=str(run_id),
        before=before,
        after={"name": run.name, "note": run.note},
    )
    return run


@transaction.atomic
def run_remove(*, acting: Actor, run_id: int) -> None:
    """Delete a run with what it found. Raises NOT_FOUND, IN_USE for one that is not over."""
    acting.require(Role.OPERATOR)
    run = _locked(acting, run_id)
    if run.state in OPEN_RUNS:
        raise DomainError(Code.IN_USE, f"optimizer run {run_id} is not over: cancel it first")
    before = {"id": run.pk, "trace": run.trace_name, "state": run.state}
    audit_record(
        acting=acting, action="optimizer_run.delete", kind="optimizer_run", name=str(run_id), before=before
    )
    run.delete()


def _locked(acting: Actor, run_id: int) -> OptimizerRun:
    run_get(acting=acting, run_id=run_id)
    run = OptimizerRun.objects.select_for_update().filter(pk=run_id).first()
    if run is None:
        raise DomainError(Code.NOT_FOUND, f"optimizer run {run_id} does not exist", field="id")
    return run


def runs_forget(*, kept: int, at_most: int = 500) -> int:
    """Delete up to `at_most` runs beyond the newest `kept`, oldest first, never an open one."""
    over = OptimizerRun.objects.exclude(state__in=OPEN_RUNS).order_by("-id")
    last = over.values_list("pk", flat=True)[kept : kept + 1].first()
    if last is None:
        return 0
    old = over.filter(pk__lte=last).order_by("id")
    keys: Sequence[int] = list(old.values_list("pk", flat=True)[:at_most])
    OptimizerRun.objects.filter(pk__in=keys).delete()
    return len(keys)
