"""Alerts, rules and silences over REST."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.alerts.api.filters import AlertFilter
from apps.alerts.api.serializers import (
    AcknowledgeInput,
    AlertOutput,
    ConditionOutput,
    RuleChange,
    RuleInput,
    RuleOutput,
    SilenceInput,
    SilenceOutput,
    TransitionOutput,
)
from apps.alerts.models import Alert, AlertRule, AlertSilence
from apps.alerts.selectors import (
    alert_get,
    alert_list,
    alert_transitions,
    conditions_by_name,
    rule_get,
    rule_list,
    silence_list,
)
from apps.alerts.services import (
    RuleSettings,
    alert_acknowledge,
    rule_add,
    rule_remove,
    rule_update,
    silence_add,
    silence_end,
)
from apps.common.api.versions import expected_version


class AlertViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """What fires now, or with `state` what did; newest first."""

    serializer_class = AlertOutput
    queryset = Alert.objects.none()
    lookup_value_regex = r"\d{1,18}"
    filterset_class = AlertFilter
    search_fields = ("rule_name", "subject", "message")
    ordering_fields = ("id", "since", "fired_at", "resolved_at", "severity", "subject")

    def get_queryset(self) -> QuerySet[Alert]:
        return alert_list(acting=self.request.actor)

    @extend_schema(responses=AlertOutput)
    def retrieve(self, request: Request, pk: str) -> Response:
        return Response(self.get_serializer(alert_get(acting=request.actor, pk=int(pk))).data)

    @extend_schema(request=AcknowledgeInput, responses=AlertOutput)
    @action(detail=True, methods=["post"], filterset_class=None, search_fields=(), ordering_fields=())
    def acknowledge(self, request: Request, pk: str) -> Response:
        data = AcknowledgeInput(data=request.data)
        data.is_valid(raise_exception=True)
        alert = alert_acknowledge(acting=request.actor, pk=int(pk), **data.validated_data)
        return Response(self.get_serializer(alert).data)

    @extend_schema(responses=TransitionOutput(many=True))
    @action(detail=True, filterset_class=None, search_fields=(), ordering_fields=())
    def history(self, request: Request, pk: str) -> Response:
        steps = alert_transitions(alert=alert_get(acting=request.actor, pk=int(pk)))
        page = self.paginate_queryset(steps)
        return self.get_paginated_response(TransitionOutput(page, many=True).data)


class ConditionViewSet(viewsets.GenericViewSet):
    """What rules can be about."""

    queryset = AlertRule.objects.none()
    serializer_class = ConditionOutput

    @extend_schema(responses=ConditionOutput(many=True))
    def list(self, request: Request) -> Response:
        conditions = sorted(conditions_by_name().values(), key=lambda condition: condition.name)
        page = self.paginate_queryset(conditions)
        return self.get_paginated_response(ConditionOutput(page, many=True).data)


class RuleViewSet(mixins.ListModelMixin, viewsets.GenericViewSet):
    """When a condition becomes an alert."""

    serializer_class = RuleOutput
    queryset = AlertRule.objects.none()
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    filterset_fields = ("name", "condition", "severity")
    search_fields = ("name", "condition")
    ordering_fields = ("name", "condition", "severity", "updated_at")

    def get_queryset(self) -> QuerySet[AlertRule]:
        return rule_list()

    @extend_schema(responses=RuleOutput)
    def retrieve(self, request: Request, name: str) -> Response:
        return Response(RuleOutput(rule_get(name=name)).data)

    @extend_schema(request=RuleInput, responses={201: RuleOutput})
    def create(self, request: Request) -> Response:
        data = RuleInput(data=request.data)
        data.is_valid(raise_exception=True)
        values = dict(data.validated_data)
        named = {name: values.pop(name) for name in ("name", "condition")}
        rule = rule_add(acting=request.actor, settings=RuleSettings(**values), **named)
        return Response(RuleOutput(rule).data, status=201)

    @extend_schema(request=RuleChange, responses=RuleOutput)
    def partial_update(self, request: Request, name: str) -> Response:
        data = RuleChange(data=request.data)
        data.is_valid(raise_exception=True)
        changes: dict[str, Any] = dict(data.validated_data)
        version = expected_version(request, changes.pop("version", None))
        rule = rule_update(acting=request.actor, name=name, changes=changes, expected_version=version)
        return Response(RuleOutput(rule).data)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, name: str) -> Response:
        rule_remove(acting=request.actor, name=name)
        return Response(status=204)


class SilenceViewSet(viewsets.GenericViewSet):
    """Silences that last; with `?ended=true` those that are over, too. DELETE ends one."""

    serializer_class = SilenceOutput
    queryset = AlertSilence.objects.none()
    lookup_value_regex = r"\d{1,18}"

    def get_queryset(self) -> QuerySet[AlertSilence]:
        return silence_list()

    @extend_schema(parameters=[OpenApiParameter("ended", bool)], responses=SilenceOutput(many=True))
    def list(self, request: Request) -> Response:
        request.actor.require_all_groups()
        silences = self.get_queryset()
        if request.query_params.get("ended", "").lower() not in {"1", "true"}:
            silences = silences.filter(until__gt=timezone.now())
        return self.get_paginated_response(SilenceOutput(self.paginate_queryset(silences), many=True).data)

    @extend_schema(request=SilenceInput, responses={201: SilenceOutput})
    def create(self, request: Request) -> Response:
        data = SilenceInput(data=request.data)
        data.is_valid(raise_exception=True)
        silence = silence_add(acting=request.actor, **data.validated_data)
        return Response(SilenceOutput(silence).data, status=201)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        silence_end(acting=request.actor, pk=int(pk))
        return Response(status=204)
