"""Searches for orphans over REST."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.api.strict import StrictSerializer
from apps.common.choices import choices_of
from apps.storages.choices import OrphanRunState
from apps.storages.models import OrphanRun
from apps.storages.selectors import orphan_run_get, orphan_run_list, storage_get
from apps.storages.services import orphans_cancel, orphans_search
from kvcm_platform.duties.orphan_order import MIN_AGE_SECONDS


class OrphanSearchInput(StrictSerializer):
    """A search; with `dry_run` false what is found is deleted."""

    dry_run = serializers.BooleanField(default=True)
    min_age_seconds = serializers.IntegerField(
        required=False,
        min_value=MIN_AGE_SECONDS,
        max_value=366 * 86400,
        help_text="what was written later is left; at least the longest write and a margin",
    )


class OrphanFiguresOutput(serializers.Serializer):
    """Counts of objects (files with all their slots) and bytes, so far or at the end."""

    phase = serializers.CharField(default="waiting")
    owner = serializers.CharField(default="", help_text="installation and storage named on the storage")
    passes = serializers.IntegerField(default=1)
    pass_number = serializers.IntegerField(default=0)
    looked_at = serializers.IntegerField(default=0)
    referred = serializers.IntegerField(default=0)
    young = serializers.IntegerField(default=0)
    out_of_reach = serializers.IntegerField(default=0)
    foreign = serializers.IntegerField(default=0)
    foreign_bytes = serializers.IntegerField(default=0)
    orphans = serializers.IntegerField(default=0)
    orphan_bytes = serializers.IntegerField(default=0)
    deleted = serializers.IntegerField(default=0)
    deleted_bytes = serializers.IntegerField(default=0)
    listed = serializers.IntegerField(default=0, help_text="blocks whose records alone were dropped")
    listed_bytes = serializers.IntegerField(default=0)
    listed_deleted = serializers.IntegerField(default=0)
    failed = serializers.IntegerField(default=0)
    reasons = serializers.DictField(child=serializers.IntegerField(), default=dict)
    folders = serializers.IntegerField(default=0)


class OrphanRunOutput(serializers.Serializer):
    """One search of a storage."""

    id = serializers.IntegerField()
    storage = serializers.CharField()
    state = serializers.ChoiceField(choices=choices_of(OrphanRunState))
    dry_run = serializers.BooleanField()
    min_age_seconds = serializers.IntegerField()
    asked_by = serializers.CharField()
    asked_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    reason = serializers.CharField()
    figures = OrphanFiguresOutput()


class SampleOutput(serializers.Serializer):
    name = serializers.CharField()
    size_bytes = serializers.IntegerField()
    written_at = serializers.FloatField(allow_null=True, help_text="unix seconds")


class OrphanViewSet(viewsets.GenericViewSet):
    """Searches of one storage for what nothing refers to; the newest first."""

    serializer_class = OrphanRunOutput
    queryset = OrphanRun.objects.none()
    filter_backends = ()
    lookup_value_regex = "[0-9]{1,18}"

    @extend_schema(responses=OrphanRunOutput(many=True))
    def list(self, request: Request, name: str) -> Response:
        page = self.paginate_queryset(orphan_run_list(name=storage_get(name=name).name))
        return self.get_paginated_response([_shown(run) for run in page])

    @extend_schema(request=OrphanSearchInput, responses={202: OrphanRunOutput})
    def create(self, request: Request, name: str) -> Response:
        data = OrphanSearchInput(data=request.data)
        data.is_valid(raise_exception=True)
        run = orphans_search(
            acting=request.actor,
            name=name,
            is_dry=data.validated_data["dry_run"],
            min_age_seconds=data.validated_data.get("min_age_seconds"),
        )
        return Response(_shown(run), status=202)

    @extend_schema(responses=OrphanRunOutput)
    def retrieve(self, request: Request, name: str, pk: str) -> Response:
        return Response(_shown(orphan_run_get(name=name, run_id=int(pk))))

    @extend_schema(request=None, responses=OrphanRunOutput)
    def cancel(self, request: Request, name: str, pk: str) -> Response:
        """Stop a search; what it deleted by then is gone."""
        return Response(_shown(orphans_cancel(acting=request.actor, name=name, run_id=int(pk))))

    @extend_schema(responses=SampleOutput(many=True))
    def samples(self, request: Request, name: str, pk: str) -> Response:
        """The first orphans that a search found, at most a thousand."""
        page = self.paginate_queryset(orphan_run_get(name=name, run_id=int(pk)).samples)
        return self.get_paginated_response(SampleOutput(page, many=True).data)


_SAME = ("id", "state", "min_age_seconds", "asked_by", "asked_at", "started_at", "ended_at", "reason")


def _shown(run: OrphanRun) -> dict[str, Any]:
    figures = OrphanFiguresOutput(data=run.figures)
    figures.is_valid(raise_exception=True)
    shown = {name: getattr(run, name) for name in _SAME}
    shown |= {"storage": run.storage.name, "dry_run": run.is_dry, "figures": figures.validated_data}
    return dict(OrphanRunOutput(shown).data)
