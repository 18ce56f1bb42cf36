"""Storages over REST."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.api.versions import expected_version
from apps.storages.api.filters import StorageFilter
from apps.storages.api.health import HealthViews
from apps.storages.api.lifecycle import LifecycleViews
from apps.storages.api.requests import FORCE, is_forced
from apps.storages.api.serializers import StorageChange, StorageInput, StorageOutput
from apps.storages.models import Storage
from apps.storages.presentation import storages_shown
from apps.storages.selectors import storage_get, storage_list
from apps.storages.services import storage_add, storage_remove, storage_update
from kvcm_platform.core.types import StorageType
from kvcm_platform.core.validation.storages import StorageSettings


class StorageViewSet(HealthViews, LifecycleViews):
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

    @extend_schema(request=StorageChange, parameters=[FORCE], responses=StorageOutput)
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
            is_forced=is_forced(request),
        )
        return Response(self._data([storage])[0])

    @extend_schema(parameters=[FORCE], responses={204: None, 202: StorageOutput})
    def destroy(self, request: Request, name: str) -> Response:
        """204 when it is gone; 202 with the storage while its blocks are removed first."""
        staying = storage_remove(acting=request.actor, name=name, is_forced=is_forced(request))
        if staying is None:
            return Response(status=204)
        return Response(self._data([staying])[0], status=202)

    def _data(self, rows: list[Storage]) -> list[dict[str, Any]]:
        return StorageOutput(storages_shown(rows, acting=self.request.actor), many=True).data
