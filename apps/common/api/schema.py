"""The OpenAPI document: one error shape for every operation."""

from __future__ import annotations

from drf_spectacular.openapi import AutoSchema
from rest_framework import serializers
from rest_framework.permissions import AllowAny

SCHEMA_PERMISSIONS = (AllowAny,)
"""The document holds no secret: it is in the repository."""


class FieldErrorSerializer(serializers.Serializer):
    """One of several fields at fault."""

    field = serializers.CharField(allow_null=True)
    code = serializers.CharField()
    message = serializers.CharField()


class ErrorSerializer(serializers.Serializer):
    """What every failed request answers."""

    code = serializers.CharField()
    field = serializers.CharField(allow_null=True)
    message = serializers.CharField()
    request_id = serializers.CharField()
    errors = FieldErrorSerializer(many=True, required=False)


class ApiSchema(AutoSchema):
    """Adds the error answers; they are the same everywhere."""

    _STATUSES = ("400", "401", "403", "404", "409")

    def _get_response_bodies(self, direction: str = "response") -> dict:
        bodies = super()._get_response_bodies(direction)
        for status in self._STATUSES:
            if status not in bodies:
                bodies[status] = self._get_response_for_code(ErrorSerializer, status, direction=direction)
        return bodies
