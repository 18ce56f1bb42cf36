"""The health of storages over REST: turns, samples of the checks, incidents."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.storages.api.filters import IncidentFilter
from apps.storages.api.serializers import (
    HealthChangeOutput,
    HealthSamplesOutput,
    HealthSamplesQuery,
    IncidentOutput,
)
from apps.storages.models import StorageIncident
from apps.storages.selectors import (
    storage_get,
    storage_health_buckets,
    storage_health_changes,
    storage_incidents,
)
from kvcm_platform.core.errors import invalid

_POINTS = 60
_MOST_POINTS = 2000


class HealthViews(viewsets.GenericViewSet):
    """What belongs to the health of one storage; part of StorageViewSet."""

    @extend_schema(responses=HealthChangeOutput(many=True))
    @action(
        detail=True, url_path="health-changes", filterset_class=None, search_fields=(), ordering_fields=()
    )
    def health_changes(self, request: Request, name: str) -> Response:
        page = self.paginate_queryset(storage_health_changes(name=storage_get(name=name).name))
        return self.get_paginated_response(HealthChangeOutput(page, many=True).data)

    @extend_schema(parameters=[HealthSamplesQuery], responses=HealthSamplesOutput, filters=False)
    @action(detail=True, url_path="health-samples", filterset_class=None, pagination_class=None)
    def health_samples(self, request: Request, name: str) -> Response:
        query = HealthSamplesQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        span = _span(**query.validated_data)
        buckets = storage_health_buckets(name=storage_get(name=name).name, **span)
        points = [{**asdict(bucket), "at": datetime.fromtimestamp(bucket.at, UTC)} for bucket in buckets]
        return Response(HealthSamplesOutput({**span, "points": points}).data)


def _span(
    since: datetime | None = None, until: datetime | None = None, bucket_seconds: int | None = None
) -> dict[str, Any]:
    """The wanted span with its defaults. Raises INVALID_ARGUMENT where it makes too many points or none."""
    until = until or timezone.now()
    try:
        since = since or until - timedelta(hours=1)
    except OverflowError as error:
        raise invalid("until", "is before any check") from error
    seconds = (until - since).total_seconds()
    if seconds <= 0:
        raise invalid("since", "must be before until")
    bucket_seconds = bucket_seconds or max(1, round(seconds / _POINTS))
    if seconds / bucket_seconds > _MOST_POINTS:
        raise invalid("bucket_seconds", f"makes more than {_MOST_POINTS} points")
    return {"since": since, "until": until, "bucket_seconds": bucket_seconds}


class IncidentViewSet(mixins.ListModelMixin, viewsets.GenericViewSet):
    """What was wrong with storages, from when to when; the newest first."""

    serializer_class = IncidentOutput
    queryset = StorageIncident.objects.none()
    filterset_class = IncidentFilter
    search_fields = ("storage_name", "kind", "node_id", "reason")
    ordering_fields = ("started_at", "ended_at", "storage_name")

    def get_queryset(self) -> QuerySet[StorageIncident]:
        return storage_incidents()
