"""Recommendations out of finished runs, held against the settings that groups have now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from apps.common.actor import Actor
from apps.instances.selectors import GroupDetail, group_get, instance_ids_by_group
from apps.optimizer_reports.choices import AdviceState, RunState
from apps.optimizer_reports.models import OptimizerRun, Recommendation, RunAdvice
from apps.optimizer_reports.selectors.costs import CostModels
from apps.optimizer_reports.selectors.recommendations import (
    FOREIGN,
    basis_of,
    is_of_former,
    recommendations_orphaned,
)
from apps.optimizer_reports.selectors.results import run_found
from apps.optimizer_reports.selectors.traces import groups_shown
from apps.usage.selectors.peaks import peak_written_bytes_per_second
from kvcm_platform.core.errors import DomainError, invalid
from kvcm_platform.core.reclaim.marks import levels_of
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.validation.groups import GroupSettings
from kvcm_platform.optimizer.advice import Advice, Curves, GroupNow, advise
from kvcm_platform.optimizer.advice_kinds import AdviceKind
from kvcm_platform.optimizer.analysis.results import Found
from kvcm_platform.optimizer.analysis.spec import AnalysisSpec
from kvcm_platform.optimizer.curve import curve_from_json
from kvcm_platform.optimizer.roi import CostModel

log = structlog.get_logger(__name__)

STAYS = timedelta(days=30)
LOOKED_BACK = timedelta(days=1)
"""Runs that ended longer ago were looked at, or say little about today."""
KEPT_AT_MOST = 5000
_RUNS_A_ROUND = 10
_PLATFORM_POLICIES = ("lru", "lfu")
"""Policies of the optimizer that reclaim has; TTL under pressure is LRU."""
_BY_SPEED = (
    StorageType.TAIR_MEMPOOL,
    StorageType.MOONCAKE,
    StorageType.HF3FS,
    StorageType.VCNS_HF3FS,
    StorageType.NFS,
)


def recommendations_make() -> int:
    """Look at finished runs that are held against a group, each once; returns how many advices were made."""
    since = timezone.now() - LOOKED_BACK
    runs = OptimizerRun.objects.filter(state=RunState.DONE.value, ended_at__gte=since, advice=None)
    waiting = runs.exclude(group_name="").order_by("id")[:_RUNS_A_ROUND]
    return sum(len(run_recommend(run=run)) for run in waiting)


def run_recommend(*, run: OptimizerRun) -> list[Recommendation]:
    """What a finished run says about its group; older open advice of the same kinds is superseded."""
    reason, found, detail = "", [], None
    kinds = set(AdviceKind)
    try:
        detail = group_get(acting=Actor.system("optimizer"), name=run.group_name)
        if is_of_former(run.asked_at, detail):
            raise _unfit(f"instance group {run.group_name} was made anew since it was asked for")
        spec, results = run_found(run)
        curves = _curves(run, spec, results)
        cost = CostModels().of(run.group_name)
        found = advise(_now(detail), curves, None if cost is None else cost[1])
        kinds = _kinds_judged(curves, None if cost is None else cost[1])
        if not found:
            reason = "the settings of today fit what the run found"
    except DomainError as error:
        reason, kinds = error.message, set()
    return _write(run, detail, found, kinds, reason)


def _write(
    run: OptimizerRun,
    detail: GroupDetail | None,
    found: Sequence[Advice],
    kinds: set[AdviceKind],
    reason: str,
) -> list[Recommendation]:
    now = timezone.now()
    is_foreign = detail is not None and _is_foreign(run, detail)
    with transaction.atomic():
        _, is_first = RunAdvice.objects.get_or_create(run=run, defaults={"at": now, "reason": reason[:500]})
        if not is_first or detail is None:
            return []
        old = Recommendation.objects.filter(group_name=run.group_name, state=AdviceState.OPEN.value)
        old.filter(kind__in=[kind.value for kind in kinds]).update(
            state=AdviceState.SUPERSEDED.value, decided_at=now
        )
        return Recommendation.objects.bulk_create(
            Recommendation(
                kind=one.kind.value,
                group_name=run.group_name,
                instance_id=one.instance_id,
                run=run,
                sentence=f"{one.sentence} {_origin(run, is_foreign)}",
                figures={**one.figures, "trace": run.trace_name, FOREIGN: is_foreign},
                changes=None if one.changes is None else dict(one.changes),
                basis=basis_of(one.kind, detail.settings),
                created_at=now,
                expires_at=now + STAYS,
            )
            for one in found
        )


def _is_foreign(run: OptimizerRun, detail: GroupDetail) -> bool:
    """Whether nothing ties the trace to the group: neither names it, nor has an instance of it."""
    instances = run.trace_facts.get("instances", ())
    if run.group_name in groups_shown(instances):
        return False
    own = instance_ids_by_group([detail.row])[detail.row.pk]
    return not {row["instance_id"] for row in instances} & set(own)


def _origin(run: OptimizerRun, is_foreign: bool) -> str:
    if not is_foreign:
        return f"It follows from trace {run.trace_name!r}."
    return (
        f"It follows from trace {run.trace_name!r}, which has none of the group's instances: it is right only"
        " where the group's traffic is like that of the trace."
    )


def _curves(run: OptimizerRun, spec: AnalysisSpec, found: Found) -> Curves:
    """Raises INVALID_ARGUMENT where the run does not say enough about the group as a whole."""
    if spec.instances or spec.types:
        raise _unfit("it is about a part of the traffic")
    shown = groups_shown(run.trace_facts.get("instances", ())) | {group.name for group in run.groups.all()}
    others = shown - {run.group_name}
    if others:
        # It would size one group for the traffic of several, and name instances to accounts that see one.
        raise _unfit(f"its trace shows traffic of instance group {min(others)}, too")
    if spec.is_sampled:
        raise _unfit("its trace was sampled")
    if "lru" not in found.curves:
        raise _unfit("it has no curve of LRU")
    by_policy = {name: found.curves[name] for name in _PLATFORM_POLICIES if name in found.curves}
    parts = (found.details or {}).get("by_instance") or {}
    return Curves(by_policy, {name: curve_from_json(data) for name, data in parts.items()})


def _unfit(why: str) -> DomainError:
    return invalid("run", f"nothing is recommended: {why}")


def _kinds_judged(curves: Curves, cost: CostModel | None) -> set[AdviceKind]:
    kinds = {AdviceKind.QUOTA, AdviceKind.WATERMARK}
    if len(curves.by_policy) > 1:
        kinds.add(AdviceKind.POLICY)
    if cost is not None and len(cost.tiers) > 1:
        kinds.add(AdviceKind.TIERS)
    if curves.by_instance:
        kinds.add(AdviceKind.INSTANCE)
    return kinds


def _now(detail: GroupDetail) -> GroupNow:
    settings = detail.settings
    high, low = _marks(settings)
    per_type = settings.quota.per_type
    return GroupNow(
        name=detail.entry.name,
        quota_bytes=settings.quota.capacity_bytes,
        high_ratio=high,
        low_ratio=low,
        policy=settings.reclaim.policy.value,
        per_type={kind.value: per_type[kind] for kind in _BY_SPEED if kind in per_type},
        peak_written_bytes_per_second=peak_written_bytes_per_second(detail.entry.name),
        delay_seconds=settings.reclaim.delay_before_delete_ms / 1000,
    )


def _marks(settings: GroupSettings) -> tuple[float, float]:
    """As shares of the quota; above 1 = never by itself. Without any mark all of the quota is held."""
    reclaim, quota = settings.reclaim, settings.quota.capacity_bytes
    if not quota or not (reclaim.used_ratio or reclaim.used_bytes):
        return 1.0, 1.0
    high, low = levels_of(reclaim, quota, used_bytes=reclaim.used_bytes)
    return max(float(high / quota), reclaim.used_ratio), float(low / quota)


def recommendations_expire(*, now: datetime) -> int:
    """Open advice that nobody decided on in time, or whose group is gone, is over; the oldest rows go."""
    of_none = Q(pk__in=recommendations_orphaned())
    over = Recommendation.objects.filter(of_none | Q(expires_at__lte=now), state=AdviceState.OPEN.value)
    count = over.update(state=AdviceState.EXPIRED.value, decided_at=now)
    past = Recommendation.objects.exclude(state=AdviceState.OPEN.value).order_by("-id")
    last = past.values_list("pk", flat=True)[KEPT_AT_MOST : KEPT_AT_MOST + 1].first()
    if last is not None:
        past.filter(pk__lte=last).delete()
    return count
