"""Why blocks are gone, over REST."""

from __future__ import annotations

from dataclasses import asdict

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from apps.capacity.services import DEPARTURES, departures
from kvcm_platform.core.errors import invalid


class EvictionOutput(serializers.Serializer):
    """One location of a block that went."""

    at = serializers.DateTimeField()
    key = serializers.CharField(help_text="the block's number: more digits than a browser's numbers have")
    cause = serializers.CharField(help_text="reclaim, remove, trim, failed, expired, moved, cleared or lost")
    what = serializers.CharField(help_text="run, trim or storage that took it; empty for other causes")
    run_id = serializers.CharField(allow_null=True, help_text="of the reclaim run, where it is on record")
    trigger = serializers.CharField(allow_null=True, help_text="what set that run off")
    sentence = serializers.CharField()


class EvictionsOutput(serializers.Serializer):
    """The newest first, `at_most` of them."""

    instance_id = serializers.CharField()
    results = EvictionOutput(many=True)


class EvictionViewSet(viewsets.GenericViewSet):
    """Why a block of an instance is gone, or what went last."""

    serializer_class = EvictionsOutput
    pagination_class = None

    @extend_schema(
        parameters=[
            OpenApiParameter("instance_id", str, required=True),
            OpenApiParameter("key", str, description="of one block; absent = what went last"),
            OpenApiParameter("at_most", int, description=f"{DEPARTURES} without it"),
        ],
        responses=EvictionsOutput(many=False),
        operation_id="capacity_evictions",
        filters=False,
    )
    def list(self, request: Request) -> Response:
        query = request.query_params
        instance_id = query.get("instance_id", "")
        if not instance_id:
            raise invalid("instance_id", "is required")
        at_most = query.get("at_most", str(DEPARTURES))
        if not (at_most.isascii() and at_most.isdecimal() and len(at_most) <= 6):
            raise invalid("at_most", "must be a number")
        found = departures(
            acting=request.actor, instance_id=instance_id, key=query.get("key", ""), at_most=int(at_most)
        )
        shown = {"instance_id": instance_id, "results": [asdict(one) for one in found]}
        return Response(EvictionsOutput(shown).data)
