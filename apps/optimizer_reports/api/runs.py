"""Optimizer runs over REST."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import RolePermission
from apps.common.actor import Role
from apps.optimizer_reports.api.filters import RunFilter
from apps.optimizer_reports.api.run_serializers import (
    ComparedRunOutput,
    RunDetail,
    RunEstimateOutput,
    RunInput,
    RunOutput,
    RunResultOutput,
    WorthInput,
    WorthOutput,
    plan_shown,
    run_wish,
)
from apps.optimizer_reports.api.safe_pages import PAGE_POLICY
from apps.optimizer_reports.api.trace_serializers import NameNoteInput
from apps.optimizer_reports.models import OptimizerRun
from apps.optimizer_reports.presentation import run_detail, run_shown
from apps.optimizer_reports.selectors.results import (
    compared_runs,
    run_page,
    run_result,
    run_worth,
    runs_compared,
    runs_csv,
    runs_png,
)
from apps.optimizer_reports.selectors.runs import jobs_of, run_get, run_list
from apps.optimizer_reports.services import (
    run_cancel,
    run_create,
    run_estimate,
    run_remove,
    run_retry,
    run_update,
)
from kvcm_platform.core.errors import invalid
from kvcm_platform.optimizer.analysis.document import POINTS
from kvcm_platform.optimizer.analysis.spec import spec_to_json

_PLAIN: dict[str, Any] = {"filterset_class": None, "search_fields": (), "ordering_fields": ()}
_JOBS_SHOWN = 100
_PICTURE = [
    OpenApiParameter("dark", bool),
    OpenApiParameter("width", int, description="400..4000 pixels"),
    OpenApiParameter("height", int, description="400..4000 pixels"),
]
_IDS = OpenApiParameter("ids", str, required=True, description="numbers of runs, by commas")


class Looks(RolePermission):
    """A question, though a body comes with it."""

    changes = Role.VIEWER


class RunViewSet(viewsets.GenericViewSet):
    """Analyses of traces, the newest first."""

    serializer_class = RunOutput
    queryset = OptimizerRun.objects.none()
    lookup_value_regex = "[0-9]{1,18}"
    filterset_class = RunFilter
    search_fields = ("name", "note", "trace_name", "group_name", "asked_by", "reason")
    ordering_fields = ("id", "name", "trace_name", "asked_at", "ended_at", "progress", "estimate_seconds")

    def get_queryset(self) -> QuerySet[OptimizerRun]:
        return run_list(acting=self.request.actor)

    @extend_schema(responses=RunOutput(many=True))
    def list(self, request: Request) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset().defer("trace_facts")))
        return self.get_paginated_response(RunOutput([run_shown(run) for run in page], many=True).data)

    @extend_schema(responses=RunDetail)
    def retrieve(self, request: Request, pk: str) -> Response:
        return _detail(run_get(acting=request.actor, run_id=int(pk)))

    @extend_schema(request=RunInput, responses={201: RunDetail})
    def create(self, request: Request) -> Response:
        """Begin a run. Its progress is in the live topic `optimizer`."""
        return _detail(run_create(acting=request.actor, wish=_wish(request)), status=201)

    @extend_schema(request=RunInput, responses=RunEstimateOutput)
    @action(detail=False, methods=["post"], permission_classes=[Looks], **_PLAIN)
    def estimate(self, request: Request) -> Response:
        """What a run would take; nothing is begun."""
        found = run_estimate(acting=request.actor, wish=_wish(request))
        shown = {
            "estimate_seconds": found.seconds,
            "waiting_seconds": found.waiting_seconds,
            "job_count": len(found.jobs),
            "jobs": [plan_shown(job) for job in found.jobs[:_JOBS_SHOWN]],
            "instance_group": found.group,
            "spec": spec_to_json(found.spec),
        }
        return Response(RunEstimateOutput(shown).data)

    @extend_schema(request=NameNoteInput, responses=RunDetail)
    def partial_update(self, request: Request, pk: str) -> Response:
        data = NameNoteInput(data=request.data)
        data.is_valid(raise_exception=True)
        run_update(acting=request.actor, run_id=int(pk), **data.validated_data)
        return _detail(run_get(acting=request.actor, run_id=int(pk)))

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        run_remove(acting=request.actor, run_id=int(pk))
        return Response(status=204)

    @extend_schema(request=None, responses=RunDetail)
    @action(detail=True, methods=["post"], **_PLAIN)
    def cancel(self, request: Request, pk: str) -> Response:
        """End a run; what its finished jobs found stays."""
        return _detail(run_cancel(acting=request.actor, run_id=int(pk)))

    @extend_schema(request=None, responses=RunDetail)
    @action(detail=True, methods=["post"], **_PLAIN)
    def retry(self, request: Request, pk: str) -> Response:
        """Do once more what failed or was cancelled."""
        return _detail(run_retry(acting=request.actor, run_id=int(pk)))

    @extend_schema(parameters=[OpenApiParameter("points", int)], responses=RunResultOutput)
    @action(detail=True, **_PLAIN)
    def result(self, request: Request, pk: str) -> Response:
        """What the run found, or its finished jobs did so far."""
        points = _number(request, "points", POINTS)
        return Response(run_result(acting=request.actor, run_id=int(pk), points=points))

    @extend_schema(request=WorthInput, responses=WorthOutput)
    @action(detail=True, methods=["post"], permission_classes=[Looks], **_PLAIN)
    def worth(self, request: Request, pk: str) -> Response:
        """What the capacities are worth by another cost model; nothing is computed anew."""
        data = WorthInput(data=request.data)
        data.is_valid(raise_exception=True)
        cost = data.validated_data["cost"]
        return Response(run_worth(acting=request.actor, run_id=int(pk), cost=cost))

    @extend_schema(responses={(200, "text/csv"): OpenApiTypes.STR})
    @action(detail=True, **_PLAIN)
    def csv(self, request: Request, pk: str) -> HttpResponse:
        """Every point of every curve."""
        run = run_get(acting=request.actor, run_id=int(pk))
        return _file(runs_csv(runs=[run]), "text/csv", f"run-{pk}.csv")

    @extend_schema(parameters=_PICTURE, responses={(200, "image/png"): OpenApiTypes.BINARY})
    @action(detail=True, **_PLAIN)
    def png(self, request: Request, pk: str) -> HttpResponse:
        """The curves as a picture."""
        run = run_get(acting=request.actor, run_id=int(pk))
        return _file(_picture(request, [run]), "image/png", f"run-{pk}.png")

    @extend_schema(responses={(200, "text/html"): OpenApiTypes.STR})
    @action(detail=True, **_PLAIN)
    def html(self, request: Request, pk: str) -> HttpResponse:
        """The report as a page that needs nothing else."""
        run = run_get(acting=request.actor, run_id=int(pk))
        return _file(run_page(run=run), "text/html", f"run-{pk}.html")

    @extend_schema(
        parameters=[_IDS, OpenApiParameter("points", int)],
        responses=ComparedRunOutput(many=True),
        filters=False,
    )
    @action(detail=False, pagination_class=None, **_PLAIN)
    def compare(self, request: Request) -> Response:
        """Up to eight runs side by side."""
        points = _number(request, "points", POINTS)
        return Response(runs_compared(acting=request.actor, run_ids=_ids(request), points=points))

    @extend_schema(parameters=[_IDS], responses={(200, "text/csv"): OpenApiTypes.STR}, filters=False)
    @action(detail=False, url_path="compare/csv", pagination_class=None, **_PLAIN)
    def compare_csv(self, request: Request) -> HttpResponse:
        runs = compared_runs(acting=request.actor, run_ids=_ids(request))
        return _file(runs_csv(runs=runs), "text/csv", "runs.csv")

    @extend_schema(
        parameters=[_IDS, *_PICTURE], responses={(200, "image/png"): OpenApiTypes.BINARY}, filters=False
    )
    @action(detail=False, url_path="compare/png", pagination_class=None, **_PLAIN)
    def compare_png(self, request: Request) -> HttpResponse:
        runs = compared_runs(acting=request.actor, run_ids=_ids(request))
        return _file(_picture(request, runs), "image/png", "runs.png")


def _wish(request: Request) -> Any:
    data = RunInput(data=request.data)
    data.is_valid(raise_exception=True)
    return run_wish(data.validated_data)


def _detail(run: OptimizerRun, status: int = 200) -> Response:
    return Response(RunDetail(run_detail(run, jobs_of(run))).data, status=status)


def _picture(request: Request, runs: list[OptimizerRun]) -> bytes:
    return runs_png(
        runs=runs,
        is_dark=request.query_params.get("dark", "").lower() in ("1", "true"),
        width=_number(request, "width", 1200),
        height=_number(request, "height", 720),
    )


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise invalid(name, "must be a whole number")
    return int(text)


def _ids(request: Request) -> list[int]:
    texts = [text for text in request.query_params.get("ids", "").split(",") if text]
    if not all(text.isascii() and text.isdecimal() and len(text) <= 18 for text in texts):
        raise invalid("ids", "must be numbers of runs, by commas")
    return [int(text) for text in texts]


def _file(content: str | bytes, kind: str, name: str) -> HttpResponse:
    answer = HttpResponse(content, content_type=kind)
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    answer["Content-Security-Policy"] = PAGE_POLICY
    return answer
