"""What people do about recommendations: apply, take back, dismiss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import redis
from django.db import transaction
from django.utils import timezone

from apps.audit.services import audit_record
from apps.capacity.services import quota_preview
from apps.common.actor import Actor, Role
from apps.instances.selectors import group_get
from apps.instances.services import group_update
from apps.optimizer_reports.choices import AdviceState
from apps.optimizer_reports.models import Recommendation
from apps.optimizer_reports.selectors.recommendations import (
    basis_of,
    is_foreign,
    is_of_former,
    recommendation_get,
)
from kvcm_platform.core.errors import Code, DomainError, invalid
from kvcm_platform.core.types import ReclaimPolicy, StorageType
from kvcm_platform.core.validation.groups import GroupSettings, check_group
from kvcm_platform.core.validation.values import text
from kvcm_platform.optimizer.advice_kinds import AdviceKind

Change = Callable[[GroupSettings], GroupSettings]


def recommendation_apply(
    *, acting: Actor, pk: int, expected_version: int | None = None, accept_foreign_trace: bool = False
) -> Recommendation:
    """Change the group as it says, through the service that every change of a group goes through.

    Raises NOT_FOUND, UNSUPPORTED for one that changes nothing by itself, CONFLICT for one that is not open,
    or is stale, or where the group's version is not `expected_version`, INVALID_ARGUMENT for one that was
    worked out from the traffic of others without `accept_foreign_trace`.
    """
    acting.require(Role.OPERATOR)
    with transaction.atomic():
        row = _locked(acting, pk)
        _require_open(row)
        if is_foreign(row) and not accept_foreign_trace:
            raise invalid(
                "accept_foreign_trace",
                f"must be true: recommendation {pk} follows from trace {row.figures['trace']!r}, which has"
                f" none of the instances of group {row.group_name}",
            )
        changed = group_update(
            acting=acting, name=row.group_name, change=_apply_to(row), expected_version=expected_version
        )
        row.applied_version = changed.detail.row.version
        _decide(row, acting, AdviceState.APPLIED, "apply")
    return recommendation_get(acting=acting, pk=pk)


def recommendation_preview(*, acting: Actor, pk: int) -> str:
    """A dry run of recommendation_apply: what reclaim would take then, in a sentence, "" = nobody can tell.

    Raises as recommendation_apply.
    """
    acting.require(Role.OPERATOR)
    row = recommendation_get(acting=acting, pk=pk)
    _require_open(row)
    change = _apply_to(row)
    check_group(change(group_get(acting=acting, name=row.group_name).settings))
    try:
        return quota_preview(acting=acting, group=row.group_name, change=change).sentence
    except (redis.RedisError, DomainError):
        # The index is away, or in a process of its own: the change can be made all the same.
        return ""


def recommendation_undo(*, acting: Actor, pk: int) -> Recommendation:
    """Put back what it changed.

    Raises NOT_FOUND, CONFLICT where it was not applied, or what it set was changed again since.
    """
    acting.require(Role.OPERATOR)
    with transaction.atomic():
        row = _locked(acting, pk)
        if row.state != AdviceState.APPLIED:
            raise DomainError(Code.CONFLICT, f"recommendation {pk} is not applied: it is {row.state}")
        group_update(acting=acting, name=row.group_name, change=_take_back(row))
        _decide(row, acting, AdviceState.UNDONE, "undo")
    return recommendation_get(acting=acting, pk=pk)


def recommendation_dismiss(*, acting: Actor, pk: int, note: str = "") -> Recommendation:
    """Say that it is not wanted; a later run may say the same again. Raises NOT_FOUND, CONFLICT."""
    acting.require(Role.OPERATOR)
    text("note", note, is_required=False, at_most=1000)
    with transaction.atomic():
        row = _locked(acting, pk)
        if row.state != AdviceState.OPEN:
            raise DomainError(Code.CONFLICT, f"recommendation {pk} is not open: it is {row.state}")
        row.decide_note = note
        _decide(row, acting, AdviceState.DISMISSED, "dismiss")
    return recommendation_get(acting=acting, pk=pk)


def _locked(acting: Actor, pk: int) -> Recommendation:
    recommendation_get(acting=acting, pk=pk)
    row: Recommendation = Recommendation.objects.select_for_update().get(pk=pk)
    return row


def _require_open(row: Recommendation) -> None:
    if row.state != AdviceState.OPEN:
        raise DomainError(Code.CONFLICT, f"recommendation {row.pk} is not open: it is {row.state}")
    if row.changes is None:
        raise DomainError(
            Code.UNSUPPORTED, f"recommendation {row.pk} is for people to act on: it changes no setting"
        )
    if row.expires_at <= timezone.now():
        raise DomainError(Code.CONFLICT, f"recommendation {row.pk} is too old: have a new run made")


def _decide(row: Recommendation, acting: Actor, state: AdviceState, action: str) -> None:
    row.state, row.decided_at, row.decided_by = state.value, timezone.now(), acting.name[:150]
    row.save()
    audit_record(
        acting=acting,
        action=f"recommendation.{action}",
        kind="instance_group",
        name=row.group_name,
        after={"recommendation": row.pk, "kind": row.kind, "sentence": row.sentence},
    )


def _require_its_group(row: Recommendation) -> None:
    """That the group is not another one of the same name, whatever its settings are."""
    if is_of_former(row.created_at, group_get(acting=Actor.system("optimizer"), name=row.group_name)):
        raise DomainError(
            Code.CONFLICT,
            f"recommendation {row.pk} is about an earlier group {row.group_name}, which was removed",
        )


def _apply_to(row: Recommendation) -> Change:
    kind = AdviceKind(row.kind)

    def change(settings: GroupSettings) -> GroupSettings:
        _require_its_group(row)
        if basis_of(kind, settings) != row.basis:
            raise DomainError(
                Code.CONFLICT,
                f"recommendation {row.pk} is stale: the settings of group {row.group_name} are others by now",
            )
        return _with(settings, row.changes or {})

    return change


def _take_back(row: Recommendation) -> Change:
    before = {
        member: {name: row.basis[name] for name in values} for member, values in (row.changes or {}).items()
    }

    def change(settings: GroupSettings) -> GroupSettings:
        _require_its_group(row)
        if _with(settings, row.changes or {}) != settings:
            raise DomainError(
                Code.CONFLICT,
                f"what recommendation {row.pk} set of group {row.group_name} was changed again since",
            )
        return _with(settings, before)

    return change


def _with(settings: GroupSettings, changes: Mapping[str, Mapping[str, Any]]) -> GroupSettings:
    """Settings with the members that advice has (kvcm_platform.optimizer.advice)."""
    quota, reclaim = dict(changes.get("quota", {})), dict(changes.get("reclaim", {}))
    if "per_type" in quota:
        quota["per_type"] = {StorageType(name): size for name, size in quota["per_type"].items()}
    if "policy" in reclaim:
        reclaim["policy"] = ReclaimPolicy(reclaim["policy"])
    return replace(
        settings, quota=replace(settings.quota, **quota), reclaim=replace(settings.reclaim, **reclaim)
    )
