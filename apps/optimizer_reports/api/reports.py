"""Reports over REST."""

from __future__ import annotations

from django.db.models import QuerySet
from django.http import HttpResponse
from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.api.moments import MomentFilter
from apps.optimizer_reports.api.report_serializers import ReportOutput
from apps.optimizer_reports.api.safe_pages import PAGE_POLICY
from apps.optimizer_reports.choices import REPORT_STATES
from apps.optimizer_reports.models import Report
from apps.optimizer_reports.presentation_reports import report_shown
from apps.optimizer_reports.selectors.schedules import report_get, report_html_of, report_list
from apps.optimizer_reports.services.reports import report_cancel


class ReportFilter(filters.FilterSet):
    schedule = filters.CharFilter(field_name="schedule__name")
    instance_group = filters.CharFilter(field_name="schedule__group_name")
    state = filters.MultipleChoiceFilter(choices=REPORT_STATES)
    changed = filters.BooleanFilter(field_name="is_changed")
    since = MomentFilter(field_name="created_at", lookup_expr="gte")
    until = MomentFilter(field_name="created_at", lookup_expr="lte")

    class Meta:
        model = Report
        fields = ()


class ReportViewSet(viewsets.GenericViewSet):
    """Reports that schedules made, newest first."""

    serializer_class = ReportOutput
    queryset = Report.objects.none()
    lookup_value_regex = r"\d{1,18}"
    filterset_class = ReportFilter
    search_fields = ("schedule__name", "reason")
    ordering_fields = ("id", "created_at", "ended_at")

    def get_queryset(self) -> QuerySet[Report]:
        return report_list(acting=self.request.actor)

    @extend_schema(responses=ReportOutput(many=True))
    def list(self, request: Request) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        shown = [report_shown(report) for report in page]
        return self.get_paginated_response(ReportOutput(shown, many=True).data)

    @extend_schema(responses=ReportOutput)
    def retrieve(self, request: Request, pk: str) -> Response:
        return Response(ReportOutput(report_shown(report_get(acting=request.actor, report_id=int(pk)))).data)

    @extend_schema(responses={(200, "text/html"): OpenApiTypes.STR})
    @action(detail=True, filterset_class=None, pagination_class=None)
    def html(self, request: Request, pk: str) -> HttpResponse:
        """The report as a page that stands alone."""
        report = report_get(acting=request.actor, report_id=int(pk))
        answer = HttpResponse(report_html_of(report), content_type="text/html; charset=utf-8")
        answer["Content-Disposition"] = f'inline; filename="{report.schedule.name}-{report.pk}.html"'
        answer["Content-Security-Policy"] = PAGE_POLICY
        return answer

    @extend_schema(request=None, responses=ReportOutput)
    @action(detail=True, methods=["post"], filterset_class=None, search_fields=(), ordering_fields=())
    def cancel(self, request: Request, pk: str) -> Response:
        report = report_cancel(acting=request.actor, report_id=int(pk))
        return Response(ReportOutput(report_shown(report)).data)
