"""Previews over REST: what would go, and nothing goes."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import RolePermission
from apps.capacity.api.serializers import (
    InstanceShareOutput,
    ReclaimFields,
    ScopeOutput,
    StorageShareOutput,
    wish_of,
)
from apps.capacity.api.trims import TrimFields, TrimPreviewOutput, trim_foreseen
from apps.capacity.presentation import shares
from apps.capacity.services import Foreseen, TrimWish, quota_preview, request_preview
from apps.common.actor import Role
from apps.common.api.strict import StrictSerializer
from apps.instances.api.changes import changed
from apps.instances.api.reclaim import ReclaimFields as ReclaimSettingsFields
from apps.instances.api.serializers import QuotaChange


class ReclaimWishInput(ReclaimFields):
    """What a requested run would take."""

    kind = serializers.ChoiceField(choices=[("reclaim", "reclaim")])


class QuotaWishInput(StrictSerializer):
    """What the marks of a group would take if its quota, or its settings of reclaim, were changed so; members
    that are absent stay. Without any: what they take as it is.
    """

    kind = serializers.ChoiceField(choices=[("quota", "quota")])
    instance_group = serializers.CharField()
    quota = QuotaChange(required=False)
    reclaim = ReclaimSettingsFields(required=False)


class TrimWishInput(TrimFields):
    """What a trim would take."""

    kind = serializers.ChoiceField(choices=[("trim", "trim")])


class CandidateOutput(serializers.Serializer):
    """Blocks of one run that would go, from its end. `key` and `depth` are of the run's first block."""

    instance_id = serializers.CharField()
    key = serializers.CharField(help_text="a number with more digits than a browser's numbers have")
    depth = serializers.IntegerField()
    idle_seconds = serializers.FloatField()
    blocks = serializers.IntegerField()
    bytes = serializers.IntegerField()
    storage = serializers.CharField()


class AgeOutput(serializers.Serializer):
    """What may go and was last used between so many seconds ago; null = no end."""

    idle_from_seconds = serializers.IntegerField()
    idle_to_seconds = serializers.IntegerField(allow_null=True)
    blocks = serializers.IntegerField()
    bytes = serializers.IntegerField()


class ReclaimPreviewOutput(serializers.Serializer):
    """What would go. Where `is_complete` is false there was too much to look at: what is planned, and the
    classes of ages, are lower bounds. `candidates` are the first that would go, in their order.
    """

    instance_group = serializers.CharField()
    sentence = serializers.CharField()
    obstacle = serializers.CharField(help_text="why a request can be about nothing; empty without one")
    scopes = ScopeOutput(many=True)
    planned_blocks = serializers.IntegerField()
    planned_bytes = serializers.IntegerField()
    evictable_blocks = serializers.IntegerField()
    evictable_bytes = serializers.IntegerField()
    by_instance = InstanceShareOutput(many=True)
    by_storage = StorageShareOutput(many=True)
    candidates = CandidateOutput(many=True)
    age_histogram = AgeOutput(many=True)
    used_before_bytes = serializers.IntegerField()
    used_after_bytes = serializers.IntegerField()
    capacity_bytes = serializers.IntegerField()
    is_complete = serializers.BooleanField()


def foreseen_shown(found: Foreseen) -> dict[str, Any]:
    """What `ReclaimPreviewOutput` prints."""
    preview = asdict(found.preview)
    shown = {
        **preview,
        "instance_group": found.instance_group,
        "sentence": found.sentence,
        "by_instance": shares("instance_id", found.preview.by_instance),
        "by_storage": shares("storage", found.preview.by_storage),
        "candidates": [{**one, "idle_seconds": one["idle_ms"] / 1000} for one in preview["candidates"]],
    }
    return ReclaimPreviewOutput(shown).data


class Looks(RolePermission):
    """A preview is a question, though a body comes with it."""

    changes = Role.VIEWER


class PreviewViewSet(viewsets.GenericViewSet):
    """What a run, a change of a group's limits, or a trim would take."""

    permission_classes = [Looks]
    serializer_class = ReclaimPreviewOutput

    @extend_schema(
        request=PolymorphicProxySerializer(
            component_name="CapacityWish",
            serializers={"reclaim": ReclaimWishInput, "quota": QuotaWishInput, "trim": TrimWishInput},
            resource_type_field_name="kind",
        ),
        responses={
            200: PolymorphicProxySerializer(
                component_name="CapacityPreview",
                serializers=[ReclaimPreviewOutput, TrimPreviewOutput],
                resource_type_field_name=None,
            )
        },
        operation_id="capacity_preview",
    )
    def create(self, request: Request) -> Response:
        kind = request.data.get("kind") if isinstance(request.data, dict) else None
        shape = {"quota": QuotaWishInput, "trim": TrimWishInput}.get(str(kind), ReclaimWishInput)
        body = shape(data=request.data)
        body.is_valid(raise_exception=True)
        values = dict(body.validated_data)
        match values.pop("kind"):
            case "trim":
                return Response(trim_foreseen(request, TrimWish(**values)))
            case "quota":
                group = values.pop("instance_group")
                change = partial(changed, data=values)
                found = quota_preview(acting=request.actor, group=group, change=change)
            case _:
                found = request_preview(acting=request.actor, wish=wish_of(values))
        return Response(foreseen_shown(found))
