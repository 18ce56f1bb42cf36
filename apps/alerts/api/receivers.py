"""Receivers over REST; admins only."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import AdminsOnly
from apps.alerts.api.serializers import DeliveryOutput, ReceiverChange, ReceiverInput, ReceiverOutput
from apps.alerts.models import AlertReceiver
from apps.alerts.selectors import delivery_list, receiver_get, receiver_list
from apps.alerts.services import (
    ReceiverSettings,
    receiver_add,
    receiver_remove,
    receiver_test,
    receiver_update,
)
from apps.common.api.versions import expected_version


class ReceiverViewSet(viewsets.GenericViewSet):
    """Webhooks that are told of alerts."""

    permission_classes = (AdminsOnly,)
    serializer_class = ReceiverOutput
    queryset = AlertReceiver.objects.none()
    lookup_field = "name"
    lookup_value_regex = "[^/]+"

    def get_queryset(self) -> QuerySet[AlertReceiver]:
        return receiver_list()

    @extend_schema(responses=ReceiverOutput(many=True))
    def list(self, request: Request) -> Response:
        request.actor.require_all_groups()
        page = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(ReceiverOutput(page, many=True).data)

    @extend_schema(responses=ReceiverOutput)
    def retrieve(self, request: Request, name: str) -> Response:
        request.actor.require_all_groups()
        return Response(ReceiverOutput(receiver_get(name=name)).data)

    @extend_schema(request=ReceiverInput, responses={201: ReceiverOutput})
    def create(self, request: Request) -> Response:
        data = ReceiverInput(data=request.data)
        data.is_valid(raise_exception=True)
        values = dict(data.validated_data)
        name = values.pop("name")
        receiver = receiver_add(acting=request.actor, name=name, settings=ReceiverSettings(**values))
        return Response(ReceiverOutput(receiver).data, status=201)

    @extend_schema(request=ReceiverChange, responses=ReceiverOutput)
    def partial_update(self, request: Request, name: str) -> Response:
        data = ReceiverChange(data=request.data)
        data.is_valid(raise_exception=True)
        changes: dict[str, Any] = dict(data.validated_data)
        version = expected_version(request, changes.pop("version", None))
        receiver = receiver_update(acting=request.actor, name=name, changes=changes, expected_version=version)
        return Response(ReceiverOutput(receiver).data)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, name: str) -> Response:
        receiver_remove(acting=request.actor, name=name)
        return Response(status=204)

    @extend_schema(request=None, responses=DeliveryOutput)
    @action(detail=True, methods=["post"])
    def test(self, request: Request, name: str) -> Response:
        return Response(DeliveryOutput(receiver_test(acting=request.actor, name=name)).data)

    @extend_schema(responses=DeliveryOutput(many=True))
    @action(detail=True)
    def deliveries(self, request: Request, name: str) -> Response:
        request.actor.require_all_groups()
        page = self.paginate_queryset(delivery_list(receiver=receiver_get(name=name)))
        return self.get_paginated_response(DeliveryOutput(page, many=True).data)
