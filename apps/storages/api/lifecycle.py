"""Acts on storages over REST beside their settings: trials, the end of a removal, several at once."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import ScopedRateThrottle

from apps.storages.api.requests import FORCE, is_forced
from apps.storages.api.serializers import (
    BulkInput,
    BulkOutput,
    SavedTrialInput,
    StorageOutput,
    TrialInput,
    TrialOutput,
)
from apps.storages.choices import BulkAction
from apps.storages.presentation import storages_shown
from apps.storages.selectors import storage_get
from apps.storages.services import (
    storage_abandon,
    storage_restore,
    storage_try,
    storage_try_saved,
    storages_change,
)
from kvcm_platform.core.types import StorageType

_TRIAL = {"throttle_classes": (ScopedRateThrottle,), "throttle_scope": "storage-trial"}


class LifecycleViews(viewsets.GenericViewSet):
    """Part of StorageViewSet."""

    throttle_scope = ""

    @extend_schema(operation_id="storages_test_connection", request=TrialInput, responses=TrialOutput)
    @action(detail=False, methods=["post"], url_path="test-connection", **_TRIAL)
    def test_connection(self, request: Request) -> Response:
        """Try a storage before it is saved. Nothing is left behind unless that is asked for."""
        data = TrialInput(data=request.data)
        data.is_valid(raise_exception=True)
        kind, spec = StorageType(data.validated_data["type"]), data.validated_data["spec"]
        may_create = data.validated_data["create"]
        result = storage_try(acting=request.actor, kind=kind, spec=spec, may_create=may_create)
        return Response(TrialOutput(result).data)

    @extend_schema(operation_id="storage_test_connection", request=SavedTrialInput, responses=TrialOutput)
    @action(detail=True, methods=["post"], url_path="test-connection", url_name="try-saved", **_TRIAL)
    def test_saved_connection(self, request: Request, name: str) -> Response:
        """Try a storage that is saved, or what it would be with other members in its spec."""
        data = SavedTrialInput(data=request.data)
        data.is_valid(raise_exception=True)
        result = storage_try_saved(acting=request.actor, name=name, spec=data.validated_data.get("spec"))
        return Response(TrialOutput(result).data)

    @extend_schema(request=None, parameters=[FORCE], responses=StorageOutput)
    @action(detail=True, methods=["post"])
    def restore(self, request: Request, name: str) -> Response:
        """Call a removal off: the blocks that are still there stay."""
        storage_restore(acting=request.actor, name=name, is_forced=is_forced(request))
        return self._one(request, name)

    @extend_schema(request=None, responses=StorageOutput)
    @action(detail=True, methods=["post"])
    def abandon(self, request: Request, name: str) -> Response:
        """Give up a storage that is being removed and does not answer: its objects are left."""
        storage_abandon(acting=request.actor, name=name)
        return self._one(request, name)

    @extend_schema(request=BulkInput, responses=BulkOutput)
    @action(detail=False, methods=["post"])
    def bulk(self, request: Request) -> Response:
        """The same change of several storages; each is reported on its own."""
        data = BulkInput(data=request.data)
        data.is_valid(raise_exception=True)
        act, names = BulkAction(data.validated_data["action"]), data.validated_data["names"]
        results = storages_change(acting=request.actor, action=act, names=names)
        return Response(BulkOutput({"results": results}).data)

    def _one(self, request: Request, name: str, status: int = 200) -> Response:
        (shown,) = storages_shown([storage_get(name=name)], acting=request.actor)
        return Response(StorageOutput(shown).data, status=status)
