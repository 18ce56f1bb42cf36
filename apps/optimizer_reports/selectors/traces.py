"""Reads of traces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet, Sum

from apps.common.actor import Actor
from apps.optimizer_reports.choices import UNREAD
from apps.optimizer_reports.models import OptimizerTrace, OptimizerTraceGroup
from kvcm_platform.core.errors import Code, DomainError


def trace_list(*, acting: Actor) -> QuerySet[OptimizerTrace]:
    """The traces that `acting` may see, newest first: an account of some groups those of its groups alone."""
    traces = OptimizerTrace.objects.order_by("-id").prefetch_related("groups")
    if acting.groups is None:
        return traces
    shown = OptimizerTraceGroup.objects.filter(trace=OuterRef("pk"))
    foreign = shown.exclude(name__in=acting.groups)
    # Of no group at all are those of accounts that have none: nobody shares these.
    return traces.filter(is_of_all_groups=False).filter(Exists(shown), ~Exists(foreign))


def trace_get(*, acting: Actor, trace_id: int) -> OptimizerTrace:
    """Raises NOT_FOUND, also for a trace outside the actor's scope."""
    trace = trace_list(acting=acting).filter(pk=trace_id).first()
    if trace is None:
        raise DomainError(Code.NOT_FOUND, f"trace {trace_id} does not exist", field="trace")
    return trace


def groups_shown(instances: Iterable[Mapping[str, Any]]) -> set[str]:
    """The instance groups that a trace names for its `instances`."""
    return {str(row["group"]) for row in instances if row.get("group")}


def traces_open(*, at_most: int) -> list[OptimizerTrace]:
    """Those that are captured or read now, newest first."""
    traces = OptimizerTrace.objects.filter(state__in=UNREAD).order_by("-id").prefetch_related("groups")
    return list(traces[:at_most])


def traces_newest(*, at_most: int) -> list[OptimizerTrace]:
    return list(OptimizerTrace.objects.order_by("-id").prefetch_related("groups")[:at_most])


def traces_bytes() -> int:
    """Of the files of all traces; a source that is still being captured counts as it was noted last."""
    return OptimizerTrace.objects.aggregate(total=Sum("stored_bytes"))["total"] or 0
