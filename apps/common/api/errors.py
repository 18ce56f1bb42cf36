"""One shape for every error of REST: `{code, field, message, request_id}` (+ `errors` for several fields)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import redis
import structlog
from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions
from rest_framework.response import Response

from kvcm_platform.core.errors import CODES, Code, DomainError

log = structlog.get_logger(__name__)

_BY_STATUS = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    413: Code.TOO_LARGE,
    429: Code.TOO_MANY,
}
_STORES_DOWN = (OperationalError, InterfaceError, redis.ConnectionError, redis.TimeoutError)


def body(code: str, message: str, *, field: str | None = None, request_id: str = "") -> dict[str, Any]:
    return {"code": code, "field": field, "message": message, "request_id": request_id}


def handle(error: Exception, context: Mapping[str, Any]) -> Response:
    """The exception handler of Django REST framework; no exception leaves a view in another shape."""
    request_id = getattr(context["request"], "request_id", "")
    if isinstance(error, DomainError):
        data = body(error.code, error.message, field=error.field, request_id=request_id)
        return Response(data, status=error.forms.rest)
    if isinstance(error, Http404):
        return Response(body(Code.NOT_FOUND, "there is no such object", request_id=request_id), status=404)
    if isinstance(error, PermissionDenied):
        return Response(body(Code.PERMISSION_DENIED, str(error), request_id=request_id), status=403)
    if isinstance(error, exceptions.ValidationError):
        return Response(_fields_at_fault(error, request_id), status=400)
    if isinstance(error, exceptions.APIException):
        return _of_framework(error, request_id)
    if isinstance(error, RecursionError):
        text = "the body is nested too deeply"
        return Response(body(Code.INVALID_ARGUMENT, text, request_id=request_id), status=400)
    if isinstance(error, _STORES_DOWN):
        log.error("a store does not answer", error=str(error))
        data = body(Code.NOT_READY, "the database or the index does not answer", request_id=request_id)
        return Response(data, status=CODES[Code.NOT_READY].rest)
    log.exception("request failed")
    data = body(
        Code.INTERNAL, "something went wrong; the log has it under this request id", request_id=request_id
    )
    return Response(data, status=500)


def _of_framework(error: exceptions.APIException, request_id: str) -> Response:
    code = _BY_STATUS.get(error.status_code, str(error.default_code))
    headers = {}
    if getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = error.auth_header
    data = body(code, str(error.detail), request_id=request_id)
    return Response(data, status=error.status_code, headers=headers)


def _fields_at_fault(error: exceptions.ValidationError, request_id: str) -> dict[str, Any]:
    found = [
        {"field": field or None, "code": str(Code.INVALID_ARGUMENT), "message": message}
        for field, message in _flat(error.detail, "")
    ]
    first = found[0]
    sentence = f"{first['field']}: {first['message']}" if first["field"] else first["message"]
    data = body(Code.INVALID_ARGUMENT, sentence, field=first["field"], request_id=request_id)
    return {**data, "errors": found} if len(found) > 1 else data


def _flat(detail: Any, path: str) -> Iterator[tuple[str, str]]:
    """The framework's nested messages as (dotted field, sentence)."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            is_general = name == "non_field_errors"
            yield from _flat(inner, path if is_general else f"{path}.{name}".lstrip("."))
    elif isinstance(detail, list):
        for item in detail:
            yield from _flat(item, path)
    else:
        yield path, str(detail)


def json_response(
    code: Code, message: str, request: HttpRequest, *, field: str | None = None
) -> HttpResponse:
    """The same shape for what never reaches a view."""
    data = body(code, message, field=field, request_id=getattr(request, "request_id", ""))
    return HttpResponse(json.dumps(data), content_type="application/json", status=CODES[code].rest)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    return json_response(Code.PERMISSION_DENIED, f"CSRF: {reason}", request)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return json_response(Code.NOT_FOUND, "there is nothing at this address", request)


def server_error(request: HttpRequest) -> HttpResponse:
    return json_response(Code.INTERNAL, "something went wrong; the log has it under this request id", request)
