"""Cost models over REST."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.api.strict import StrictSerializer
from apps.common.api.versions import expected_version
from apps.optimizer_reports.models.cost import OptimizerCostModel
from apps.optimizer_reports.selectors.costs import cost_model_get, cost_model_groups, cost_model_list
from apps.optimizer_reports.services.cost_models import (
    cost_model_add,
    cost_model_remove,
    cost_model_update,
)
from kvcm_platform.optimizer.roi import PRESETS, ModelCost


class CostModelChange(StrictSerializer):
    """A partial update; `settings` and `groups` are replaced as a whole. `groups` have this model instead of
    the default. `settings`: model (a preset's name, or an object), gpu_hour_price, effective_flops or
    prefill_tokens_per_second, tiers and more (docs/optimizer.md); what is left out has an example's value.
    """

    version = serializers.IntegerField(required=False)
    settings = serializers.DictField(required=False)
    note = serializers.CharField(required=False, allow_blank=True)
    is_default = serializers.BooleanField(required=False)
    groups = serializers.ListField(child=serializers.CharField(), required=False, max_length=10_000)


class CostModelInput(CostModelChange):
    """A new cost model; the first one becomes the default."""

    version = None
    name = serializers.CharField(allow_blank=True)
    settings = serializers.DictField()


class CostModelOutput(serializers.Serializer):
    name = serializers.CharField()
    note = serializers.CharField()
    is_default = serializers.BooleanField()
    groups = serializers.ListField(child=serializers.CharField())
    settings = serializers.DictField()
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class ModelPresetOutput(serializers.Serializer):
    """A public model: what its KV cache weighs, and what its prefill costs by position."""

    preset = serializers.CharField()
    title = serializers.CharField()
    kv_bytes_per_token = serializers.FloatField()
    flops_per_token = serializers.FloatField()
    flops_per_token_position = serializers.FloatField()
    source = serializers.CharField()


class CostModelViewSet(viewsets.GenericViewSet):
    """What computing and storing cost: the prices behind every figure in money."""

    serializer_class = CostModelOutput
    queryset = OptimizerCostModel.objects.none()
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    filterset_fields = ("is_default",)
    search_fields = ("name", "note", "groups__group_name")
    ordering_fields = ("name", "created_at", "updated_at")

    def get_queryset(self) -> QuerySet[OptimizerCostModel]:
        return cost_model_list()

    @extend_schema(responses=CostModelOutput(many=True))
    def list(self, request: Request) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()).distinct())
        return self.get_paginated_response([_shown(row, request) for row in page])

    @extend_schema(responses=CostModelOutput)
    def retrieve(self, request: Request, name: str) -> Response:
        return Response(_shown(cost_model_get(name=name), request))

    @extend_schema(request=CostModelInput, responses={201: CostModelOutput})
    def create(self, request: Request) -> Response:
        data = CostModelInput(data=request.data)
        data.is_valid(raise_exception=True)
        return Response(_shown(cost_model_add(acting=request.actor, **data.validated_data), request), 201)

    @extend_schema(request=CostModelChange, responses=CostModelOutput)
    def partial_update(self, request: Request, name: str) -> Response:
        data = CostModelChange(data=request.data)
        data.is_valid(raise_exception=True)
        changes: dict[str, Any] = dict(data.validated_data)
        version = expected_version(request, changes.pop("version", None))
        row = cost_model_update(acting=request.actor, name=name, changes=changes, expected_version=version)
        return Response(_shown(row, request))

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, name: str) -> Response:
        cost_model_remove(acting=request.actor, name=name)
        return Response(status=204)

    @extend_schema(responses=ModelPresetOutput(many=True))
    @action(detail=False, filterset_fields=None, search_fields=(), ordering_fields=())
    def presets(self, request: Request) -> Response:
        """Public models that `settings.model` may name."""
        page = self.paginate_queryset(sorted(PRESETS.items()))
        return self.get_paginated_response([_preset(name, model) for name, model in page])


def _shown(row: OptimizerCostModel, request: Request) -> dict[str, Any]:
    groups = cost_model_groups(row, acting=request.actor)
    return CostModelOutput({**row.__dict__, "groups": groups}).data


def _preset(name: str, model: ModelCost) -> dict[str, Any]:
    members = asdict(model)
    return {"preset": name, **{key: members[key] for key in ModelPresetOutput().fields if key != "preset"}}
