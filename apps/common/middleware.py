"""Middleware of every HTTP answer: request id, security headers, the front-end bundle."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware

from apps.common.api.errors import json_response
from kvcm_platform.core.errors import Code

_ACCEPTED_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_Handler = Callable[[HttpRequest], HttpResponse]


class RequestIdMiddleware:
    """Takes the caller's X-Request-ID or makes one; it is in each log line and in the answer."""

    def __init__(self, get_response: _Handler) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-ID", "")
        request.request_id = given if _ACCEPTED_ID.fullmatch(given) else uuid.uuid4().hex
        with structlog.contextvars.bound_contextvars(request_id=request.request_id):
            response = self._get_response(request)
        response["X-Request-ID"] = request.request_id
        return response


class NulMiddleware:
    """Refuses addresses with a NUL: nothing is called that, and PostgreSQL fails where it is asked."""

    def __init__(self, get_response: _Handler) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if "\x00" in request.path:
            return json_response(Code.NOT_FOUND, "there is nothing at this address", request)
        if "%00" in request.META.get("QUERY_STRING", ""):
            at_fault = [
                name for name, values in request.GET.lists() if any("\x00" in each for each in values)
            ]
            field = at_fault[0] if at_fault and "\x00" not in at_fault[0] else None
            return json_response(Code.INVALID_ARGUMENT, "must not contain NUL", request, field=field)
        return self._get_response(request)


def most_body_bytes(path: str) -> int:
    """How large a request's body may be: a few addresses take files."""
    default: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return int(settings.KVCM_LARGE_BODIES.get(path.rstrip("/"), default))


class BodyLimitMiddleware:
    """Refuses bodies that no request of ours needs; the framework's parsers know no limit."""

    def __init__(self, get_response: _Handler) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        length = request.META.get("CONTENT_LENGTH") or "0"
        limit = most_body_bytes(request.path)
        if length.isdecimal() and int(length) <= limit:
            return self._get_response(request)
        return json_response(Code.TOO_LARGE, f"a request may have {limit >> 20} MiB", request)


class SecurityHeadersMiddleware:
    """Headers that Django's own middleware does not set."""

    def __init__(self, get_response: _Handler) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        response.headers.setdefault("Content-Security-Policy", settings.CONTENT_SECURITY_POLICY)
        response.headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
        if request.path.startswith("/api/"):
            response.headers.setdefault("Cache-Control", "no-store")
        return response


class BundleMiddleware(WhiteNoiseMiddleware):
    """Serves the built front end below /static/.

    The answer is given whole: its files are small, and under ASGI Django would read a synchronous
    stream into memory anyway, with a warning for each.
    """

    def serve(self, static_file: object, request: HttpRequest) -> HttpResponse:
        streamed = super().serve(static_file, request)
        content = b"".join(streamed.streaming_content)
        streamed.close()
        return HttpResponse(content, status=streamed.status_code, headers=streamed.headers)
