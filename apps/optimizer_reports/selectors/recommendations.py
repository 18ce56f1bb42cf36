"""Reads of recommendations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from apps.common.actor import Actor
from apps.instances.selectors import GroupDetail, group_details, group_list
from apps.optimizer_reports.choices import AdviceState
from apps.optimizer_reports.models import Recommendation
from kvcm_platform.core.errors import Code, DomainError
from kvcm_platform.core.validation.groups import GroupSettings
from kvcm_platform.optimizer.advice_kinds import AdviceKind

FOREIGN = "is_trace_foreign"
"""The figure of a recommendation that says that its trace has none of the group's traffic."""


def recommendation_list(*, acting: Actor) -> QuerySet[Recommendation]:
    """Those of groups that `acting` may see, newest first."""
    rows = Recommendation.objects.order_by("-id")
    return rows if acting.groups is None else rows.filter(group_name__in=acting.groups)


def recommendation_get(*, acting: Actor, pk: int) -> Recommendation:
    """Raises NOT_FOUND, also for one outside the actor's scope."""
    row = recommendation_list(acting=acting).filter(pk=pk).first()
    if row is None:
        raise DomainError(Code.NOT_FOUND, f"recommendation {pk} does not exist", field="id")
    return row


def recommendations_open(*, group_name: str) -> list[Recommendation]:
    rows = Recommendation.objects.filter(group_name=group_name, state=AdviceState.OPEN.value)
    return list(rows.order_by("id")[:100])


def recommendations_orphaned() -> list[int]:
    """Open ones whose group is gone, or was made anew since."""
    begun = dict(group_list(acting=Actor.system("optimizer")).values_list("name", "created_at"))
    rows = Recommendation.objects.filter(state=AdviceState.OPEN.value).order_by("id")
    told = rows.values_list("pk", "group_name", "created_at")
    return [pk for pk, name, at in told if name not in begun or at < begun[name]]


def groups_of(rows: list[Recommendation], *, acting: Actor) -> dict[str, GroupDetail]:
    """The groups of these as they are now, by name, without those that are gone; a handful of queries."""
    found = list(group_list(acting=acting).filter(name__in={row.group_name for row in rows}))
    return {detail.entry.name: detail for detail in group_details(found)}


def basis_of(kind: AdviceKind, settings: GroupSettings) -> dict[str, Any]:
    """The settings that advice of this kind is worked out for, JSON-ready."""
    reclaim = settings.reclaim
    marks = {
        "used_ratio": reclaim.used_ratio,
        "low_watermark_ratio": reclaim.low_watermark_ratio,
        "used_bytes": reclaim.used_bytes,
    }
    known: dict[str, Any] = {"capacity_bytes": settings.quota.capacity_bytes, **marks}
    if kind is AdviceKind.POLICY:
        known["policy"] = reclaim.policy.value
    if kind is AdviceKind.TIERS:
        known["per_type"] = {name.value: size for name, size in settings.quota.per_type.items()}
    return known


def is_of_former(at: datetime, detail: GroupDetail) -> bool:
    """Whether what was worked out, or asked for, then is about an earlier group of the same name."""
    return at < detail.row.created_at


def is_stale(row: Recommendation, detail: GroupDetail | None) -> bool:
    """Whether the group has other settings by now than the advice was worked out for, or is gone, or is
    another one of the same name."""
    if detail is None or is_of_former(row.created_at, detail):
        return True
    return basis_of(AdviceKind(row.kind), detail.settings) != row.basis


def is_foreign(row: Recommendation) -> bool:
    """Whether it was worked out from traffic that is not the group's."""
    return bool(row.figures.get(FOREIGN))


def changed_now(row: Recommendation, detail: GroupDetail | None) -> Mapping[str, Any]:
    """What applying it would change: {member: {before, after}} of what differs."""
    if detail is None or row.changes is None:
        return {}
    quota, reclaim = detail.settings.quota, detail.settings.reclaim
    shown: dict[str, Any] = {}
    for member, values in row.changes.items():
        for name, after in values.items():
            before = getattr(quota if member == "quota" else reclaim, name)
            shown[f"{member}.{name}"] = {"before": _plain(before), "after": after}
    return shown


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {getattr(name, "value", name): size for name, size in value.items()}
    return getattr(value, "value", value)
