"""Traces over REST."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import viewsets
from rest_framework.decorators import action
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.redis_client import index_client
from apps.optimizer_reports.api.filters import TraceFilter
from apps.optimizer_reports.api.trace_serializers import (
    NameNoteInput,
    ReadingFields,
    TraceCaptureInput,
    TraceDetail,
    TraceGenerateInput,
    TraceOutput,
    TraceUploadInput,
    wish_of,
)
from apps.optimizer_reports.api.uploads import TraceUploadHandler
from apps.optimizer_reports.folders import parquet_file, source_file
from apps.optimizer_reports.models import OptimizerTrace
from apps.optimizer_reports.presentation import trace_detail, trace_shown
from apps.optimizer_reports.selectors.traces import trace_get, trace_list
from apps.optimizer_reports.services import (
    GenerateWish,
    capture_begin,
    capture_end,
    trace_add,
    trace_generate,
    trace_read_again,
    trace_remove,
    trace_update,
)
from kvcm_platform.core.errors import Code, DomainError

_PIECE_BYTES = 1 << 20
_PLAIN: dict[str, Any] = {"filterset_class": None, "search_fields": (), "ordering_fields": ()}


class TraceViewSet(viewsets.GenericViewSet):
    """Traces of requests, the newest first: uploaded, captured or generated."""

    serializer_class = TraceOutput
    queryset = OptimizerTrace.objects.none()
    lookup_value_regex = "[0-9]{1,18}"
    filterset_class = TraceFilter
    search_fields = ("name", "note", "file_name", "added_by", "reason")
    ordering_fields = (
        *("id", "name", "added_at", "file_bytes", "stored_bytes", "requests", "blocks", "distinct_blocks"),
        "span_us",
    )
    _upload: TraceUploadHandler | None = None

    def get_queryset(self) -> QuerySet[OptimizerTrace]:
        return trace_list(acting=self.request.actor)

    def get_parsers(self) -> list[Any]:
        return super().get_parsers() if self._upload is None else [MultiPartParser()]

    def initialize_request(self, request: Any, *args: Any, **kwargs: Any) -> Request:
        # Before anything reads the body: a check of the session's CSRF token does.
        if request.content_type == "multipart/form-data":
            self._upload = TraceUploadHandler(request)
            request.upload_handlers = [self._upload]
        return super().initialize_request(request, *args, **kwargs)

    def finalize_response(self, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if self._upload is not None:
            self._upload.discard()
        return super().finalize_response(*args, **kwargs)

    @extend_schema(responses=TraceOutput(many=True))
    def list(self, request: Request) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(TraceOutput([trace_shown(row) for row in page], many=True).data)

    @extend_schema(responses=TraceDetail)
    def retrieve(self, request: Request, pk: str) -> Response:
        return _detail(trace_get(acting=request.actor, trace_id=int(pk)))

    @extend_schema(request={"multipart/form-data": TraceUploadInput}, responses={201: TraceDetail})
    def create(self, request: Request) -> Response:
        """Upload a trace. It is read in the background; its state and the live topic tell how far that is."""
        data = TraceUploadInput(data=request.data)
        data.is_valid(raise_exception=True)
        received = data.validated_data["file"].received
        trace = trace_add(acting=request.actor, received=received, wish=wish_of(data.validated_data))
        if self._upload is not None:
            self._upload.keep()
        return _detail(trace, status=201)

    @extend_schema(request=TraceGenerateInput, responses={201: TraceDetail})
    @action(detail=False, methods=["post"], **_PLAIN)
    def generate(self, request: Request) -> Response:
        """Have a trace generated, to try things with."""
        data = TraceGenerateInput(data=request.data)
        data.is_valid(raise_exception=True)
        trace = trace_generate(acting=request.actor, wish=GenerateWish(**data.validated_data))
        return _detail(trace, status=201)

    @extend_schema(request=TraceCaptureInput, responses={201: TraceDetail})
    @action(detail=False, methods=["post"], **_PLAIN)
    def capture(self, request: Request) -> Response:
        """Capture live traffic; the trace is read when that is over."""
        data = TraceCaptureInput(data=request.data)
        data.is_valid(raise_exception=True)
        values = dict(data.validated_data)
        ids = values.pop("instances")
        trace = capture_begin(acting=request.actor, client=index_client(), instance_ids=ids, **values)
        return _detail(trace, status=201)

    @extend_schema(request=None, responses=TraceDetail)
    @action(detail=True, methods=["post"], url_path="end-capture", **_PLAIN)
    def end_capture(self, request: Request, pk: str) -> Response:
        """End a capture before its time; what was captured is read within seconds."""
        return _detail(capture_end(acting=request.actor, trace_id=int(pk)))

    @extend_schema(request=NameNoteInput, responses=TraceDetail)
    def partial_update(self, request: Request, pk: str) -> Response:
        data = NameNoteInput(data=request.data)
        data.is_valid(raise_exception=True)
        trace_update(acting=request.actor, trace_id=int(pk), **data.validated_data)
        return _detail(trace_get(acting=request.actor, trace_id=int(pk)))

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        trace_remove(acting=request.actor, trace_id=int(pk))
        return Response(status=204)

    @extend_schema(request=ReadingFields, responses=TraceDetail)
    @action(detail=True, methods=["post"], **_PLAIN)
    def read(self, request: Request, pk: str) -> Response:
        """Read the source once more, in another way."""
        data = ReadingFields(data=request.data)
        data.is_valid(raise_exception=True)
        wish = wish_of(data.validated_data)
        return _detail(trace_read_again(acting=request.actor, trace_id=int(pk), wish=wish))

    @extend_schema(responses={(200, "application/octet-stream"): OpenApiTypes.BINARY})
    @action(detail=True, url_path="source", **_PLAIN)
    def source_download(self, request: Request, pk: str) -> HttpResponseBase:
        """The file as it came."""
        trace = trace_get(acting=request.actor, trace_id=int(pk))
        return _file(source_file(trace.folder), trace.file_name or trace.name)

    @extend_schema(responses={(200, "application/vnd.apache.parquet"): OpenApiTypes.BINARY})
    @action(detail=True, url_path="parquet", **_PLAIN)
    def parquet_download(self, request: Request, pk: str) -> HttpResponseBase:
        """The columns of the trace for other programs."""
        trace = trace_get(acting=request.actor, trace_id=int(pk))
        return _file(parquet_file(trace.folder), f"{trace.name}.parquet")


def _detail(trace: OptimizerTrace, status: int = 200) -> Response:
    return Response(TraceDetail(trace_detail(trace)).data, status=status)


def _file(path: Path, name: str) -> HttpResponseBase:
    if not path.is_file():
        raise DomainError(Code.NOT_FOUND, "the trace has no such file (yet)")
    answer = StreamingHttpResponse(_pieces(path), content_type="application/octet-stream")
    answer["Content-Length"] = str(path.stat().st_size)
    shown = quote(Path(name).name or "trace")
    answer["Content-Disposition"] = f"attachment; filename*=UTF-8''{shown}"
    return answer


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    # Asynchronous: under ASGI Django would read a plain iterator whole before it sends anything.
    with await asyncio.to_thread(path.open, "rb") as source:
        while piece := await asyncio.to_thread(source.read, _PIECE_BYTES):
            yield piece
