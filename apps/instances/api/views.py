"""Instance groups and instances over REST."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.api.versions import expected_version
from apps.instances.api.changes import BLANK, changed
from apps.instances.api.filters import GroupFilter, InstanceFilter
from apps.instances.api.presentation import groups_shown, instances_shown
from apps.instances.api.serializers import GroupChange, GroupInput, GroupOutput, InstanceOutput
from apps.instances.models import Instance, InstanceGroup
from apps.instances.selectors import group_get, group_list, instance_get, instance_list
from apps.instances.services import group_create, group_remove, group_update, instance_remove


class GroupViewSet(viewsets.GenericViewSet):
    """Instance groups: quota, candidates and reclaim of the instances in them."""

    serializer_class = GroupOutput
    queryset = InstanceGroup.objects.none()
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    filterset_class = GroupFilter
    search_fields = ("name", "user_data")
    ordering_fields = (
        "name",
        "capacity_bytes",
        "instance_count",
        "max_instance_count",
        "created_at",
        "updated_at",
    )

    def get_queryset(self) -> QuerySet[InstanceGroup]:
        return group_list(acting=self.request.actor)

    @extend_schema(responses=GroupOutput(many=True))
    def list(self, request: Request) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(_groups(page))

    @extend_schema(responses=GroupOutput)
    def retrieve(self, request: Request, name: str) -> Response:
        return _group(request, name)

    @extend_schema(request=GroupInput, responses={201: GroupOutput})
    def create(self, request: Request) -> Response:
        data = GroupInput(data=request.data)
        data.is_valid(raise_exception=True)
        name = data.validated_data["name"]
        group_create(acting=request.actor, name=name, settings=changed(BLANK, data.validated_data))
        return _group(request, name, status=201)

    @extend_schema(request=GroupChange, responses=GroupOutput)
    def partial_update(self, request: Request, name: str) -> Response:
        data = GroupChange(data=request.data)
        data.is_valid(raise_exception=True)
        group_update(
            acting=request.actor,
            name=name,
            change=lambda settings: changed(settings, data.validated_data),
            expected_version=expected_version(request, data.validated_data.get("version")),
        )
        return _group(request, name)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, name: str) -> Response:
        group_remove(acting=request.actor, name=name)
        return Response(status=204)


def _groups(rows: list[InstanceGroup]) -> list[dict[str, Any]]:
    return GroupOutput(groups_shown(rows), many=True).data


def _group(request: Request, name: str, status: int = 200) -> Response:
    row = group_get(acting=request.actor, name=name).row
    return Response(_groups([row])[0], status=status)


class InstanceViewSet(viewsets.GenericViewSet):
    """Registered instances; engines register themselves over the protocol."""

    serializer_class = InstanceOutput
    queryset = Instance.objects.none()
    lookup_field = "instance_id"
    # Ids may have slashes, and this resource has nothing below its objects.
    lookup_value_regex = ".+?"
    filterset_class = InstanceFilter
    search_fields = ("instance_id", "model_name", "group__name")
    ordering_fields = (
        "instance_id",
        "instance_group",
        "model_name",
        "block_size",
        "registered_at",
        "last_seen_at",
    )

    def get_queryset(self) -> QuerySet[Instance]:
        return instance_list(acting=self.request.actor)

    @extend_schema(responses=InstanceOutput(many=True))
    def list(self, request: Request) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(InstanceOutput(instances_shown(page), many=True).data)

    @extend_schema(responses=InstanceOutput)
    def retrieve(self, request: Request, instance_id: str) -> Response:
        row = instance_get(acting=request.actor, instance_id=instance_id)
        return Response(InstanceOutput(instances_shown([row])[0]).data)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, instance_id: str) -> Response:
        instance_remove(acting=request.actor, instance_id=instance_id)
        return Response(status=204)
