"""Why blocks are gone, over REST."""

from __future__ import annotations

from dataclasses import asdict

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from apps.capacity.services import DEPARTURES, departures


class EvictionQuery(serializers.Serializer):
    instance_id = serializers.CharField()
    key = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        trim_whitespace=False,
        help_text="of one block; absent = what went last",
    )
    at_most = serializers.IntegerField(required=False, default=DEPARTURES)


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
        parameters=[EvictionQuery],
        responses=EvictionsOutput(many=False),
        operation_id="capacity_evictions",
        filters=False,
    )
    def list(self, request: Request) -> Response:
        query = EvictionQuery(data=request.query_params)
        query.is_valid(raise_exception=True)
        wanted = query.validated_data
        found = departures(acting=request.actor, **wanted)
        shown = {"instance_id": wanted["instance_id"], "results": [asdict(one) for one in found]}
        return Response(EvictionsOutput(shown).data)
