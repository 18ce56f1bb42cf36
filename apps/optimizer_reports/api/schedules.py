"""Schedules of reports over REST."""

from __future__ import annotations

from itertools import islice
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.api.strict import StrictSerializer
from apps.common.api.versions import expected_version
from apps.optimizer_reports.api.report_serializers import ReportOutput
from apps.optimizer_reports.choices import MAIL_WHENS, REPORT_SOURCES
from apps.optimizer_reports.models import ReportSchedule
from apps.optimizer_reports.presentation_reports import report_shown, schedule_shown
from apps.optimizer_reports.selectors.schedules import (
    NEXT_SHOWN,
    expression_words,
    report_list,
    reports_by_id,
    schedule_get,
    schedule_list,
)
from apps.optimizer_reports.services.report_begin import report_request
from apps.optimizer_reports.services.schedules import (
    ScheduleSettings,
    schedule_add,
    schedule_remove,
    schedule_update,
)
from kvcm_platform.core.cron import parse_cron


class ScheduleFilter(filters.FilterSet):
    instance_group = filters.CharFilter(field_name="group_name")
    source = filters.MultipleChoiceFilter(choices=REPORT_SOURCES)
    paused = filters.BooleanFilter(field_name="is_paused")

    class Meta:
        model = ReportSchedule
        fields = ()


class ScheduleChange(StrictSerializer):
    """A partial update; lists and `template` are replaced as a whole. `template` has the members of an
    analysis (as `optimizer/runs` takes them), without quota and cost, which follow from the group.
    """

    version = serializers.IntegerField(required=False)
    note = serializers.CharField(required=False, allow_blank=True)
    instance_group = serializers.CharField(source="group_name", required=False, allow_blank=True)
    cron = serializers.CharField(required=False, help_text="minute hour day-of-month month day-of-week")
    timezone = serializers.CharField(required=False)
    source = serializers.ChoiceField(choices=REPORT_SOURCES, required=False)
    trace = serializers.IntegerField(source="trace_id", required=False, allow_null=True)
    instances = serializers.ListField(child=serializers.CharField(), required=False)
    capture_seconds = serializers.IntegerField(required=False)
    template = serializers.DictField(required=False)
    keep_reports = serializers.IntegerField(required=False)
    hit_rate_threshold = serializers.FloatField(required=False)
    capacity_threshold = serializers.FloatField(required=False)
    recipients = serializers.ListField(child=serializers.CharField(), required=False)
    mails_when = serializers.ChoiceField(choices=MAIL_WHENS, required=False)
    paused = serializers.BooleanField(source="is_paused", required=False)


class ScheduleInput(ScheduleChange):
    """A new schedule; what is absent gets its default."""

    version = None
    name = serializers.CharField(allow_blank=True)
    cron = serializers.CharField()
    source = serializers.ChoiceField(choices=REPORT_SOURCES)


class ScheduleOutput(serializers.Serializer):
    """`next_runs` are the next five times, none while it is paused."""

    name = serializers.CharField()
    note = serializers.CharField()
    instance_group = serializers.CharField(allow_blank=True)
    cron = serializers.CharField()
    timezone = serializers.CharField()
    cron_words = serializers.CharField()
    next_runs = serializers.ListField(child=serializers.DateTimeField())
    source = serializers.ChoiceField(choices=REPORT_SOURCES)
    trace = serializers.IntegerField(allow_null=True)
    instances = serializers.ListField(child=serializers.CharField())
    capture_seconds = serializers.IntegerField()
    template = serializers.DictField()
    keep_reports = serializers.IntegerField()
    hit_rate_threshold = serializers.FloatField()
    capacity_threshold = serializers.FloatField()
    recipients = serializers.ListField(child=serializers.CharField())
    mails_when = serializers.ChoiceField(choices=MAIL_WHENS)
    paused = serializers.BooleanField()
    last_report = ReportOutput(allow_null=True)
    version = serializers.IntegerField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class CronInput(StrictSerializer):
    cron = serializers.CharField()
    timezone = serializers.CharField(default="UTC")


class CronOutput(serializers.Serializer):
    cron_words = serializers.CharField()
    next_runs = serializers.ListField(child=serializers.DateTimeField())


class ScheduleViewSet(viewsets.GenericViewSet):
    """When reports are made, of what, and whom they are sent to."""

    serializer_class = ScheduleOutput
    queryset = ReportSchedule.objects.none()
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    filterset_class = ScheduleFilter
    search_fields = ("name", "note", "group_name")
    ordering_fields = ("name", "created_at", "updated_at")

    def get_queryset(self) -> QuerySet[ReportSchedule]:
        return schedule_list(acting=self.request.actor)

    @extend_schema(responses=ScheduleOutput(many=True))
    def list(self, request: Request) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(_shown(page))

    @extend_schema(responses=ScheduleOutput)
    def retrieve(self, request: Request, name: str) -> Response:
        return _one(request, name)

    @extend_schema(request=ScheduleInput, responses={201: ScheduleOutput})
    def create(self, request: Request) -> Response:
        data = ScheduleInput(data=request.data)
        data.is_valid(raise_exception=True)
        values = _tuples(data.validated_data)
        name = values.pop("name")
        schedule_add(acting=request.actor, name=name, settings=ScheduleSettings(**values))
        return _one(request, name, status=201)

    @extend_schema(request=ScheduleChange, responses=ScheduleOutput)
    def partial_update(self, request: Request, name: str) -> Response:
        data = ScheduleChange(data=request.data)
        data.is_valid(raise_exception=True)
        changes = _tuples(data.validated_data)
        version = expected_version(request, changes.pop("version", None))
        schedule_update(acting=request.actor, name=name, changes=changes, expected_version=version)
        return _one(request, name)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, name: str) -> Response:
        schedule_remove(acting=request.actor, name=name)
        return Response(status=204)

    @extend_schema(request=None, responses={202: ReportOutput})
    @action(detail=True, methods=["post"], filterset_class=None, search_fields=(), ordering_fields=())
    def run(self, request: Request, name: str) -> Response:
        """Makes a report now, whatever the times are; also while the schedule is paused."""
        report = report_request(acting=request.actor, name=name)
        return Response(ReportOutput(report_shown(report)).data, status=202)

    @extend_schema(responses=ReportOutput(many=True))
    @action(detail=True, filterset_class=None, search_fields=(), ordering_fields=())
    def reports(self, request: Request, name: str) -> Response:
        schedule = schedule_get(acting=request.actor, name=name)
        page = self.paginate_queryset(report_list(acting=request.actor).filter(schedule=schedule))
        shown = [report_shown(report) for report in page]
        return self.get_paginated_response(ReportOutput(shown, many=True).data)

    @extend_schema(request=CronInput, responses=CronOutput)
    @action(detail=False, methods=["post"], filterset_class=None, search_fields=(), ordering_fields=())
    def explain(self, request: Request) -> Response:
        """Says in words when an expression comes, and its next five times."""
        data = CronInput(data=request.data)
        data.is_valid(raise_exception=True)
        cron = parse_cron(data.validated_data["cron"], data.validated_data["timezone"])
        times = list(islice(cron.after(timezone.now()), NEXT_SHOWN))
        return Response(CronOutput({"cron_words": expression_words(cron), "next_runs": times}).data)


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _shown(page: list[ReportSchedule]) -> Any:
    last = reports_by_id([row.last_report_id for row in page if row.last_report_id])
    now = timezone.now()
    return ScheduleOutput([schedule_shown(row, now, last) for row in page], many=True).data


def _one(request: Request, name: str, status: int = 200) -> Response:
    return Response(_shown([schedule_get(acting=request.actor, name=name)])[0], status=status)
