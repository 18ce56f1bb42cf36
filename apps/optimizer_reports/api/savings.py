"""Savings by group and month over REST."""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, date, datetime
from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.optimizer_reports.models.cost import SavingsMonth
from apps.optimizer_reports.presentation_savings import group_saving_shown, savings_summary_shown
from apps.optimizer_reports.selectors.savings import SavingsOfMonth, savings_months, savings_of_month
from kvcm_platform.core.errors import invalid

_MONTH = re.compile(r"(20\d\d)-(0[1-9]|1[0-2])")
MONTH_PARAMETER = OpenApiParameter(
    "month", OpenApiTypes.STR, description="as 2026-11 (UTC); this month without", pattern=_MONTH.pattern
)


class _AmountsOutput(serializers.Serializer):
    """Money is of the time itself, and null where there is no cost model. `prefill_seconds` is the least that
    hits spared: the history knows how many tokens were hit and not where in their prompts they stood.
    `mean_used_bytes` is of the `known_ratio` of the time in which somebody looked.
    """

    month = serializers.CharField()
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    requests = serializers.IntegerField()
    requested_tokens = serializers.IntegerField()
    hit_tokens = serializers.IntegerField()
    token_hit_rate = serializers.FloatField(allow_null=True)
    prefill_seconds = serializers.FloatField(allow_null=True)
    gpu_hours = serializers.FloatField(allow_null=True)
    saved_money = serializers.FloatField(allow_null=True)
    storage_money = serializers.FloatField(allow_null=True)
    net_money = serializers.FloatField(allow_null=True)
    currency = serializers.CharField(allow_blank=True)


class GroupSavingOutput(_AmountsOutput):
    """One instance group in one month."""

    instance_group = serializers.CharField()
    cost_model = serializers.CharField(allow_null=True)
    mean_used_bytes = serializers.FloatField()
    known_ratio = serializers.FloatField()


class SavingsSummaryOutput(_AmountsOutput):
    """The sum over the groups that may be seen; `groups` of them have something counted."""

    groups = serializers.IntegerField()


class SavingsMonthOutput(serializers.Serializer):
    month = serializers.CharField()


class SavingsViewSet(viewsets.GenericViewSet):
    """What the caches of groups saved and cost in a month, by real traffic."""

    serializer_class = GroupSavingOutput
    queryset = SavingsMonth.objects.none()
    filter_backends = ()

    @extend_schema(parameters=[MONTH_PARAMETER], responses=GroupSavingOutput(many=True))
    def list(self, request: Request) -> Response:
        found = _of_request(request)
        page = self.paginate_queryset(found.groups)
        shown = [group_saving_shown(group) for group in page]
        return self.get_paginated_response(GroupSavingOutput(shown, many=True).data)

    @extend_schema(parameters=[MONTH_PARAMETER], responses=SavingsSummaryOutput)
    @action(detail=False, pagination_class=None)
    def summary(self, request: Request) -> Response:
        return Response(SavingsSummaryOutput(savings_summary_shown(_of_request(request))).data)

    @extend_schema(responses=SavingsMonthOutput(many=True))
    @action(detail=False)
    def months(self, request: Request) -> Response:
        """The months of which something is counted, the newest first."""
        page = self.paginate_queryset(savings_months(acting=request.actor))
        return self.get_paginated_response([{"month": f"{month:%Y-%m}"} for month in page])

    @extend_schema(parameters=[MONTH_PARAMETER], responses={(200, "text/csv"): OpenApiTypes.STR})
    @action(detail=False, pagination_class=None)
    def csv(self, request: Request) -> HttpResponse:
        """All groups of a month as CSV."""
        found = _of_request(request)
        answer = HttpResponse(_table(found), content_type="text/csv; charset=utf-8")
        answer["Content-Disposition"] = f'attachment; filename="savings-{found.month:%Y-%m}.csv"'
        return answer


def _of_request(request: Request) -> SavingsOfMonth:
    return savings_of_month(month_given(request), acting=request.actor)


def month_given(request: Request) -> date:
    """Raises INVALID_ARGUMENT for what is no month."""
    text = request.query_params.get("month", "")
    if not text:
        return datetime.now(UTC).date().replace(day=1)
    match = _MONTH.fullmatch(text)
    if match is None:
        raise invalid("month", f"{text[:40]!r} is no month: write it like 2026-11")
    return date(int(match[1]), int(match[2]), 1)


def _table(found: SavingsOfMonth) -> str:
    names = ("instance_group", "cost_model", *_AmountsOutput().fields, "mean_used_bytes", "known_ratio")
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(names)
    for group in found.groups:
        shown: dict[str, Any] = GroupSavingOutput(group_saving_shown(group)).data
        rows.writerow([shown[name] for name in names])
    return text.getvalue()
