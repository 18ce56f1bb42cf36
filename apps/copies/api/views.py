"""Migrations over REST."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.copies.api.filters import MigrationFilter
from apps.copies.api.serializers import MigrationInput, MigrationRunOutput, PreviewOutput
from apps.copies.models import CopyRun
from apps.copies.selectors import eta_of, run_get, run_list
from apps.copies.services import migration_cancel, migration_preview, migration_request, policy_preview
from kvcm_platform.core.errors import invalid
from kvcm_platform.core.migration import CopyRequest
from kvcm_platform.core.types import Retention

_ONE = r"\d{1,18}"


class MigrationViewSet(viewsets.GenericViewSet):
    """Migrations of blocks between storages: those requested, and those of groups' policies."""

    serializer_class = MigrationRunOutput
    queryset = CopyRun.objects.none()
    lookup_value_regex = _ONE
    filterset_class = MigrationFilter
    search_fields = ("group_name", "instance_id", "source", "target", "trigger")
    ordering_fields = ("id", "created_at", "ended_at", "copied_bytes", "copied_blocks", "failed_blocks")

    def get_queryset(self) -> QuerySet[CopyRun]:
        return run_list(acting=self.request.actor)

    @extend_schema(responses=MigrationRunOutput(many=True))
    def list(self, request: Request) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response([_shown(run) for run in page])

    @extend_schema(responses=MigrationRunOutput)
    def retrieve(self, request: Request, pk: str) -> Response:
        return Response(_shown(run_get(acting=request.actor, run_id=int(pk))))

    @extend_schema(request=MigrationInput, responses={200: PreviewOutput, 201: MigrationRunOutput})
    def create(self, request: Request) -> Response:
        data = MigrationInput(data=request.data)
        data.is_valid(raise_exception=True)
        wish = _wish(data.validated_data)
        if data.validated_data["dry_run"]:
            return Response(PreviewOutput(migration_preview(acting=request.actor, wish=wish)).data)
        return Response(_shown(migration_request(acting=request.actor, wish=wish)), status=201)

    @extend_schema(request=None, responses=MigrationRunOutput)
    @action(detail=True, methods=["post"], filterset_class=None, search_fields=(), ordering_fields=())
    def cancel(self, request: Request, pk: str) -> Response:
        return Response(_shown(migration_cancel(acting=request.actor, run_id=int(pk))))

    @extend_schema(
        parameters=[OpenApiParameter("instance_group", str, required=True)],
        responses=PreviewOutput,
        filters=False,
    )
    @action(detail=False, url_path="preview", filterset_class=None, pagination_class=None)
    def preview(self, request: Request) -> Response:
        """What the policy of a group would move now."""
        group = request.query_params.get("instance_group", "")
        if not group:
            raise invalid("instance_group", "is required")
        return Response(PreviewOutput(policy_preview(acting=request.actor, group=group)).data)


def _wish(data: dict[str, Any]) -> CopyRequest:
    is_idle = data["scope"] == "idle"
    if is_idle and data["idle_seconds"] <= 0:
        raise invalid("idle_seconds", "is required for the scope idle")
    return CopyRequest(
        id="",
        group=data["instance_group"],
        instance_id=data["instance_id"],
        source=data["source"],
        target=data["target"],
        retention=Retention(data["retention"]),
        idle_seconds=data["idle_seconds"] if is_idle else 0,
        most_bytes=data["max_bytes"],
        max_bytes_per_second=data["max_bytes_per_second"],
        is_verified=data["verify"],
    )


def _shown(run: CopyRun) -> dict[str, Any]:
    eta = eta_of(run)
    run.eta_seconds = None if eta is None else eta.total_seconds()  # type: ignore[attr-defined]
    return MigrationRunOutput(run).data
