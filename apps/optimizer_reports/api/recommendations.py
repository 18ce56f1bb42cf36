"""Recommendations over REST."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.api.moments import MomentFilter
from apps.common.api.numbers import RowNumberFilter
from apps.common.api.strict import StrictSerializer
from apps.common.api.versions import expected_version
from apps.optimizer_reports.choices import ADVICE_KINDS, ADVICE_STATES
from apps.optimizer_reports.models import Recommendation
from apps.optimizer_reports.presentation_reports import recommendation_shown
from apps.optimizer_reports.selectors.recommendations import (
    groups_of,
    recommendation_get,
    recommendation_list,
)
from apps.optimizer_reports.services.recommendation_decisions import (
    recommendation_apply,
    recommendation_dismiss,
    recommendation_preview,
    recommendation_undo,
)


class RecommendationFilter(filters.FilterSet):
    instance_group = filters.CharFilter(field_name="group_name")
    instance_id = filters.CharFilter()
    kind = filters.MultipleChoiceFilter(choices=ADVICE_KINDS)
    state = filters.MultipleChoiceFilter(choices=ADVICE_STATES)
    run = RowNumberFilter(field_name="run_id")
    since = MomentFilter(field_name="created_at", lookup_expr="gte")
    until = MomentFilter(field_name="created_at", lookup_expr="lte")

    class Meta:
        model = Recommendation
        fields = ()


class RecommendationOutput(serializers.Serializer):
    """`changes` are members of the group's settings, null = it only tells. `differences` {member: {before,
    after}} are what applying it would change now. A stale one was worked out for other settings than the
    group has now; it cannot be applied. One of
    a `foreign_trace`, which has none of the group's instances, is applied with `accept_foreign_trace` alone.
    """

    id = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=ADVICE_KINDS)
    state = serializers.ChoiceField(choices=ADVICE_STATES)
    instance_group = serializers.CharField()
    instance_id = serializers.CharField(allow_null=True)
    run = serializers.IntegerField(allow_null=True)
    sentence = serializers.CharField()
    figures = serializers.DictField()
    changes = serializers.DictField(allow_null=True)
    differences = serializers.DictField()
    foreign_trace = serializers.BooleanField()
    stale = serializers.BooleanField()
    applicable = serializers.BooleanField()
    group_version = serializers.IntegerField(allow_null=True)
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    decided_at = serializers.DateTimeField(allow_null=True)
    decided_by = serializers.CharField(allow_blank=True)
    decide_note = serializers.CharField(allow_blank=True)
    applied_version = serializers.IntegerField(allow_null=True)


class ApplyInput(StrictSerializer):
    """`version` (or If-Match) is the group's: a stale one is refused. With `dry_run` nothing changes.
    `accept_foreign_trace` is needed where the recommendation says `foreign_trace`.
    """

    version = serializers.IntegerField(required=False)
    dry_run = serializers.BooleanField(default=False)
    accept_foreign_trace = serializers.BooleanField(default=False)


class ApplyOutput(serializers.Serializer):
    """`foreseen` says of a dry run what reclaim would take then; empty where nobody can tell."""

    applied = serializers.BooleanField()
    foreseen = serializers.CharField(allow_blank=True)
    recommendation = RecommendationOutput()


class DismissInput(StrictSerializer):
    note = serializers.CharField(default="", allow_blank=True)


class RecommendationViewSet(viewsets.GenericViewSet):
    """What finished runs say about the settings of groups, newest first."""

    serializer_class = RecommendationOutput
    queryset = Recommendation.objects.none()
    lookup_value_regex = r"\d{1,18}"
    filterset_class = RecommendationFilter
    search_fields = ("group_name", "instance_id", "sentence")
    ordering_fields = ("id", "created_at", "expires_at", "decided_at")

    def get_queryset(self) -> QuerySet[Recommendation]:
        return recommendation_list(acting=self.request.actor)

    @extend_schema(responses=RecommendationOutput(many=True))
    def list(self, request: Request) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(_shown(request, page))

    @extend_schema(responses=RecommendationOutput)
    def retrieve(self, request: Request, pk: str) -> Response:
        return Response(_shown(request, [recommendation_get(acting=request.actor, pk=int(pk))])[0])

    @extend_schema(request=ApplyInput, responses=ApplyOutput)
    @action(detail=True, methods=["post"], filterset_class=None, search_fields=(), ordering_fields=())
    def apply(self, request: Request, pk: str) -> Response:
        """Changes the group as it says, as its PATCH would; with `dry_run` only says what would be."""
        data = ApplyInput(data=request.data)
        data.is_valid(raise_exception=True)
        is_dry = data.validated_data["dry_run"]
        version = expected_version(request, data.validated_data.get("version"))
        foreseen = recommendation_preview(acting=request.actor, pk=int(pk)) if is_dry else ""
        if not is_dry:
            recommendation_apply(
                acting=request.actor,
                pk=int(pk),
                expected_version=version,
                accept_foreign_trace=data.validated_data["accept_foreign_trace"],
            )
        row = recommendation_get(acting=request.actor, pk=int(pk))
        shown = {"applied": not is_dry, "foreseen": foreseen, "recommendation": _shown(request, [row])[0]}
        return Response(shown)

    @extend_schema(request=None, responses=RecommendationOutput)
    @action(detail=True, methods=["post"], filterset_class=None, search_fields=(), ordering_fields=())
    def undo(self, request: Request, pk: str) -> Response:
        """Puts back what an applied one changed."""
        return Response(_shown(request, [recommendation_undo(acting=request.actor, pk=int(pk))])[0])

    @extend_schema(request=DismissInput, responses=RecommendationOutput)
    @action(detail=True, methods=["post"], filterset_class=None, search_fields=(), ordering_fields=())
    def dismiss(self, request: Request, pk: str) -> Response:
        data = DismissInput(data=request.data)
        data.is_valid(raise_exception=True)
        row = recommendation_dismiss(acting=request.actor, pk=int(pk), note=data.validated_data["note"])
        return Response(_shown(request, [row])[0])


def _shown(request: Request, rows: list[Recommendation]) -> Any:
    groups = groups_of(rows, acting=request.actor)
    shown = [recommendation_shown(row, groups.get(row.group_name)) for row in rows]
    return RecommendationOutput(shown, many=True).data
