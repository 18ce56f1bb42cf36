"""Storages over REST."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.api.versions import expected_version
from apps.storages.api.filters import StorageFilter
from apps.storages.api.presentation import storages_shown
from apps.storages.api.serializers import HealthChangeOutput, StorageChange, StorageInput, StorageOutput
from apps.storages.models import Storage
from apps.storages.selectors import storage_get, storage_health_changes, storage_list
from apps.storages.services import storage_add, storage_remove, storage_update
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.validation.storages import StorageSettings

_FORCE = OpenApiParameter("force", bool, description="go ahead where blocks or groups are affected")


class StorageViewSet(viewsets.GenericViewSet):
    """Storages: where engines put blocks."""

    serializer_class = StorageOutput
    queryset = Storage.objects.none()
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    filterset_class = StorageFilter
    search_fields = ("name", "type", "maintenance_note")
    ordering_fields = ("name", "type", "number", "weight", "capacity_bytes", "created_at", "updated_at")

    def get_queryset(self) -> QuerySet[Storage]:
        return storage_list()

    @extend_schema(responses=StorageOutput(many=True))
    def list(self, request: Request) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(self._data(page))

    @extend_schema(responses=StorageOutput)
    def retrieve(self, request: Request, name: str) -> Response:
        return Response(self._data([storage_get(name=name)])[0])

    @extend_schema(request=StorageInput, responses={201: StorageOutput})
    def create(self, request: Request) -> Response:
        data = StorageInput(data=request.data)
        data.is_valid(raise_exception=True)
        values = dict(data.validated_data)
        named = {name: values.pop(name) for name in ("name", "spec")}
        kind = StorageType(values.pop("type"))
        storage = storage_add(acting=request.actor, kind=kind, settings=StorageSettings(**values), **named)
        return Response(self._data([storage])[0], status=201)

    @extend_schema(request=StorageChange, parameters=[_FORCE], responses=StorageOutput)
    def partial_update(self, request: Request, name: str) -> Response:
        data = StorageChange(data=request.data)
        data.is_valid(raise_exception=True)
        values = dict(data.validated_data)
        version = expected_version(request, values.pop("version", None))
        kind = StorageType(values.pop("type")) if "type" in values else None
        storage = storage_update(
            acting=request.actor,
            name=name,
            kind=kind,
            spec=values.pop("spec", None),
            settings=values,
            expected_version=version,
            is_forced=_is_forced(request),
        )
        return Response(self._data([storage])[0])

    @extend_schema(parameters=[_FORCE], responses={204: None})
    def destroy(self, request: Request, name: str) -> Response:
        storage_remove(acting=request.actor, name=name, is_forced=_is_forced(request))
        return Response(status=204)

    @extend_schema(responses=HealthChangeOutput(many=True))
    @action(
        detail=True, url_path="health-changes", filterset_class=None, search_fields=(), ordering_fields=()
    )
    def health_changes(self, request: Request, name: str) -> Response:
        page = self.paginate_queryset(storage_health_changes(name=storage_get(name=name).name))
        return self.get_paginated_response(HealthChangeOutput(page, many=True).data)

    def _data(self, rows: list[Storage]) -> list[dict[str, Any]]:
        return StorageOutput(storages_shown(rows, acting=self.request.actor), many=True).data


def _is_forced(request: Request) -> bool:
    return request.query_params.get("force", "").lower() in {"1", "true"}
