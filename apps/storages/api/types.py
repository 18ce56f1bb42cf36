"""What types of storages there are: the members of their specs and what they can do, for forms."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.choices import choices_of
from apps.storages.choices import STORAGE_TYPES
from apps.storages.selectors import StorageTypeShown, storage_type_list
from kvcm_platform.core.validation.storages import FieldKind, SpecField


class ChoiceOutput(serializers.Serializer):
    value = serializers.JSONField(help_text="a text or a number, like the member")
    label = serializers.CharField()


class SpecFieldOutput(serializers.Serializer):
    """One member of a type's spec."""

    name = serializers.CharField()
    label = serializers.CharField()
    help = serializers.CharField()
    kind = serializers.ChoiceField(choices=choices_of(FieldKind))
    required = serializers.BooleanField()
    default = serializers.JSONField(help_text="a text, a number or a flag, by `kind`")
    minimum = serializers.IntegerField(allow_null=True)
    maximum = serializers.IntegerField(allow_null=True)
    choices = ChoiceOutput(many=True)
    unit = serializers.CharField()
    example = serializers.CharField()
    secret = serializers.BooleanField(help_text="may carry a password, which is shown hidden")
    locating = serializers.BooleanField(help_text="says where the data is: changing it moves the storage")


class CapabilitiesOutput(serializers.Serializer):
    needs_mount = serializers.BooleanField()
    has_slot_files = serializers.BooleanField()
    can_punch_holes = serializers.BooleanField()
    has_capacity = serializers.BooleanField()
    has_segments = serializers.BooleanField()
    keeps_write_times = serializers.BooleanField()
    may_lose_content = serializers.BooleanField()


class StorageTypeOutput(serializers.Serializer):
    """One type; `capabilities` is null while nothing can be kept on storages of it."""

    type = serializers.ChoiceField(choices=STORAGE_TYPES)
    scheme = serializers.CharField(help_text="of the URIs of its blocks")
    spec = SpecFieldOutput(many=True)
    capabilities = CapabilitiesOutput(allow_null=True)


class StorageTypeViewSet(viewsets.GenericViewSet):
    """Types of storages: the same schema that REST and AdminService check specs by."""

    serializer_class = StorageTypeOutput
    filter_backends = ()

    @extend_schema(responses=StorageTypeOutput(many=True))
    def list(self, request: Request) -> Response:
        page = self.paginate_queryset(storage_type_list())
        return self.get_paginated_response(StorageTypeOutput([_shown(kind) for kind in page], many=True).data)


def _shown(kind: StorageTypeShown) -> dict[str, Any]:
    return {
        "type": kind.type,
        "scheme": kind.scheme,
        "spec": [_field(field) for field in kind.fields],
        "capabilities": None if kind.capabilities is None else asdict(kind.capabilities),
    }


def _field(field: SpecField) -> dict[str, Any]:
    has_range = field.kind is FieldKind.NUMBER and not field.choices
    return {
        "name": field.name,
        "label": field.label,
        "help": field.help,
        "kind": field.kind,
        "required": field.is_required,
        "default": field.default,
        "minimum": field.low if has_range else None,
        "maximum": field.high if has_range else None,
        "choices": [asdict(choice) for choice in field.choices],
        "unit": field.unit,
        "example": field.example,
        "secret": field.is_secret,
        "locating": field.is_locating,
    }
