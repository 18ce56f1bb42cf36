"""Trims over REST."""

from __future__ import annotations

from dataclasses import asdict

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from apps.capacity.api.serializers import StorageShareOutput
from apps.capacity.presentation import shares
from apps.capacity.services import TRIM_STRATEGIES, TrimWish, trim, trim_preview
from apps.common.api.strict import StrictSerializer

_STRATEGIES = [(name, name) for name in TRIM_STRATEGIES]


class TrimFields(StrictSerializer):
    """Blocks of one instance: all; all, with the bytes left for a search of orphans; or those that were
    finished between `begin` and `end`, both included (absent = open).
    """

    instance_id = serializers.CharField()
    strategy = serializers.ChoiceField(choices=_STRATEGIES)
    begin = serializers.DateTimeField(required=False, allow_null=True, default=None)
    end = serializers.DateTimeField(required=False, allow_null=True, default=None)


class TrimInput(TrimFields):
    dry_run = serializers.BooleanField(default=False, help_text="say what would go, and let nothing go")


class TrimPreviewOutput(serializers.Serializer):
    """What a trim would take; lower bounds where `is_complete` is false. Blocks in two places count twice."""

    instance_id = serializers.CharField()
    instance_group = serializers.CharField()
    sentence = serializers.CharField()
    blocks = serializers.IntegerField()
    bytes = serializers.IntegerField()
    by_storage = StorageShareOutput(many=True)
    is_complete = serializers.BooleanField()


class TrimOutput(serializers.Serializer):
    """A trim. `blocks` went so far; one that is not complete goes on in the background."""

    id = serializers.CharField()
    instance_id = serializers.CharField()
    instance_group = serializers.CharField()
    blocks = serializers.IntegerField()
    is_complete = serializers.BooleanField()


class TrimViewSet(viewsets.GenericViewSet):
    """Removal of an instance's blocks by the time of their writing, or of all of them."""

    serializer_class = TrimOutput

    @extend_schema(
        request=TrimInput,
        responses={200: TrimPreviewOutput, 202: TrimOutput},
    )
    def create(self, request: Request) -> Response:
        data = TrimInput(data=request.data)
        data.is_valid(raise_exception=True)
        values = dict(data.validated_data)
        is_dry = values.pop("dry_run")
        wish = TrimWish(**values)
        if is_dry:
            return Response(trim_foreseen(request, wish))
        done = trim(acting=request.actor, wish=wish)
        return Response(TrimOutput({**asdict(done), "instance_id": wish.instance_id}).data, status=202)


def trim_foreseen(request: Request, wish: TrimWish) -> dict[str, object]:
    """What `TrimPreviewOutput` prints of a trim that is only looked at."""
    found = trim_preview(acting=request.actor, wish=wish)
    shown = {
        **asdict(found),
        "instance_id": wish.instance_id,
        "by_storage": shares("storage", found.by_storage),
    }
    return TrimPreviewOutput(shown).data
