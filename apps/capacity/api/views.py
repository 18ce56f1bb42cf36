"""Reclaim runs over REST."""

from __future__ import annotations

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.capacity.api.filters import ReclaimRunFilter
from apps.capacity.api.previews import ReclaimPreviewOutput, foreseen_shown
from apps.capacity.api.serializers import ReclaimInput, ReclaimRunDetail, ReclaimRunOutput, wish_of
from apps.capacity.models import ReclaimRun
from apps.capacity.presentation import run_detail, run_shown
from apps.capacity.selectors import run_get, run_list
from apps.capacity.services import reclaim_cancel, reclaim_request, request_preview

_LONG = ("by_instance", "by_storage")
"""Members that a list leaves out."""


class ReclaimRunViewSet(viewsets.GenericViewSet):
    """Reclaim runs, newest first: those that marks, limits and refused writes set off, and requested ones."""

    serializer_class = ReclaimRunOutput
    queryset = ReclaimRun.objects.none()
    lookup_value_regex = "[0-9a-f]{16}"
    filterset_class = ReclaimRunFilter
    search_fields = ("run_id", "group_name", "asked_by", "detail")
    ordering_fields = (
        *("id", "created_at", "ended_at", "chosen_blocks", "chosen_bytes", "freed_bytes", "failed_blocks"),
        "busy_ms",
    )

    def get_queryset(self) -> QuerySet[ReclaimRun]:
        return run_list(acting=self.request.actor).defer(*_LONG)

    @extend_schema(responses=ReclaimRunOutput(many=True))
    def list(self, request: Request) -> Response:
        now = timezone.now()
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(
            ReclaimRunOutput([run_shown(run, now) for run in page], many=True).data
        )

    @extend_schema(responses=ReclaimRunDetail)
    def retrieve(self, request: Request, pk: str) -> Response:
        return _detail(run_get(acting=request.actor, run_id=pk))

    @extend_schema(request=ReclaimInput, responses={200: ReclaimPreviewOutput, 201: ReclaimRunDetail})
    def create(self, request: Request) -> Response:
        data = ReclaimInput(data=request.data)
        data.is_valid(raise_exception=True)
        wish = wish_of(data.validated_data)
        if data.validated_data["dry_run"]:
            return Response(foreseen_shown(request_preview(acting=request.actor, wish=wish)))
        run = reclaim_request(acting=request.actor, wish=wish)
        return _detail(run, status=201)

    @extend_schema(request=None, responses=ReclaimRunDetail)
    @action(detail=True, methods=["post"], filterset_class=None, search_fields=(), ordering_fields=())
    def cancel(self, request: Request, pk: str) -> Response:
        return _detail(reclaim_cancel(acting=request.actor, run_id=pk))


def _detail(run: ReclaimRun, status: int = 200) -> Response:
    return Response(ReclaimRunDetail(run_detail(run, timezone.now())).data, status=status)
