"""Usage now and in the past, plans and quotas over REST."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.http import QueryDict
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.usage.api.serializers import (
    HistoryOutput,
    HistoryQuery,
    LimitOutput,
    PlanQuery,
    PlanRowOutput,
    QuotaQuery,
    UsageQuery,
    UsageRowOutput,
)
from apps.usage.choices import Kind, RowKind
from apps.usage.presentation import plan_shown, quota_shown, usage_shown
from apps.usage.selectors.history import SeriesHistory, Span, history, span_of
from apps.usage.selectors.now import RowKey, all_keys, by_growth, group_keys, rows_of
from apps.usage.selectors.plan import plan_keys, plan_of
from apps.usage.selectors.series import series_seen
from kvcm_platform.core.errors import invalid

_FIRST = int(datetime.min.replace(tzinfo=UTC).timestamp())
_LAST = int(datetime.max.replace(tzinfo=UTC, microsecond=0).timestamp())
"""Of the times that can be said, in unix seconds."""


class _Rows(viewsets.GenericViewSet):
    """Lists that no table holds: keys are chosen first, and rows made for one page alone."""

    filter_backends = ()

    def page_of(self, keys: Sequence[RowKey]) -> list[RowKey]:
        page: list[RowKey] = self.paginate_queryset(keys)
        return page


class UsageViewSet(_Rows):
    """What groups, their limited types of storage, and storages hold, how that grows and when it is full."""

    serializer_class = UsageRowOutput

    @extend_schema(parameters=[UsageQuery], responses=UsageRowOutput(many=True))
    def list(self, request: Request) -> Response:
        query = _valid(UsageQuery(data=_lists(request.query_params, "kind")))
        keys = _chosen(all_keys(acting=request.actor), query)
        ordering = query.get("ordering", "name")
        if ordering.endswith("bytes_per_second"):
            keys = by_growth(keys, is_falling=ordering.startswith("-"))
        elif ordering == "-name":
            keys = sorted(keys, key=lambda key: key.name, reverse=True)
        rows = rows_of(self.page_of(keys), acting=request.actor)
        return self.get_paginated_response(UsageRowOutput([usage_shown(row) for row in rows], many=True).data)

    @extend_schema(
        parameters=[
            HistoryQuery,
            OpenApiParameter("name", str, many=True, explode=True, description="none for the platform"),
        ],
        responses=HistoryOutput,
    )
    @action(detail=False, pagination_class=None)
    def history(self, request: Request) -> Response:
        """The history of up to 20 groups, storages or instances, at most 1,000 points each."""
        query = _valid(HistoryQuery(data=_lists(request.query_params, "name")))
        kind, names = Kind(query["kind"]), query.get("name") or [""]
        span = _span(query.get("from"), query.get("to"), query.get("step"))
        rows = series_seen(kind, names, acting=request.actor)
        return Response(_history_shown(kind, span, history(rows, span)))


class PlanViewSet(_Rows):
    """What to add to groups and storages until a horizon, or may be taken off them, with the arithmetic."""

    serializer_class = PlanRowOutput

    @extend_schema(parameters=[PlanQuery], responses=PlanRowOutput(many=True))
    def list(self, request: Request) -> Response:
        query = _valid(PlanQuery(data=_lists(request.query_params, "kind")))
        keys = self.page_of(_chosen(plan_keys(all_keys(acting=request.actor)), query))
        days = query["horizon_days"]
        rows = plan_of(keys, acting=request.actor, horizon_days=days)
        shown = [plan_shown(row, days) for row in rows]
        return self.get_paginated_response(PlanRowOutput(shown, many=True).data)


class QuotaViewSet(_Rows):
    """The limits of groups, as a whole and by type of storage, and what they leave."""

    serializer_class = LimitOutput

    @extend_schema(parameters=[QuotaQuery], responses=LimitOutput(many=True))
    def list(self, request: Request) -> Response:
        query = _valid(QuotaQuery(data=request.query_params))
        group, kind = query.get("instance_group"), query.get("storage_type")
        keys = [
            key
            for key in group_keys(acting=request.actor)
            if group in (None, "", key.name) and kind in (None, "", key.type)
        ]
        rows = rows_of(self.page_of(keys), acting=request.actor)
        return self.get_paginated_response(LimitOutput([quota_shown(row) for row in rows], many=True).data)


def _lists(params: QueryDict, *names: str) -> dict[str, Any]:
    """Parameters, those of `names` as the lists that they may be."""
    given = {name: params.getlist(name) for name in names if name in params}
    return {**params.dict(), **given}


def _valid(query: Any) -> dict[str, Any]:
    query.is_valid(raise_exception=True)
    values: dict[str, Any] = query.validated_data
    return values


def _chosen(keys: Sequence[RowKey], query: dict[str, Any]) -> list[RowKey]:
    kinds = set(query.get("kind") or [kind.value for kind in RowKind])
    name, part = query.get("name", ""), query.get("search", "").lower()
    return [
        key for key in keys if key.kind.value in kinds and name in ("", key.name) and part in key.name.lower()
    ]


def _span(begin: datetime | None, end: datetime | None, step: int | None) -> Span:
    """Raises INVALID_ARGUMENT where there is nothing between the two, or too much."""
    now = timezone.now()
    end = end or now
    try:
        begin = begin or end - timedelta(hours=1)
        span = span_of(int(begin.timestamp()), int(end.timestamp()), now=int(now.timestamp()), step=step)
    except OverflowError as error:
        raise invalid("from", "is beyond the times that there are") from error
    except ValueError as error:
        raise invalid("from" if step is None else "step", str(error)) from error
    if not _FIRST <= span.begin <= span.end <= _LAST:
        raise invalid("from", "with whole steps it is beyond the times that there are")
    return span


def _history_shown(kind: Kind, span: Span, found: Sequence[SeriesHistory]) -> dict[str, Any]:
    return {
        "kind": kind.value,
        "from": datetime.fromtimestamp(span.begin, UTC),
        "to": datetime.fromtimestamp(span.end, UTC),
        "step_seconds": span.step,
        "resolution_seconds": int(span.resolution),
        "at": list(span.times),
        "series": [
            {"name": one.key.name, "instance_group": one.key.group or None, "columns": one.columns}
            for one in found
        ],
    }
