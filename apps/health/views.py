"""`/healthz/live`, `/healthz/ready` and `/metrics`: for supervisors, balancers and Prometheus."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from .metrics import CONTENT_TYPE, exposition
from .selectors import readiness


@require_safe
def live(request: HttpRequest) -> JsonResponse:
    """The process answers; nothing else is looked at."""
    return JsonResponse({"state": "live"})


@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    """200 when the database, Redis and a process of each role are there, else 503 with what is missing."""
    components = readiness()
    missing = [component.name for component in components if not component.is_ok]
    body = {
        "state": "not_ready" if missing else "ready",
        "missing": missing,
        "components": {
            component.name: {
                "state": "ok" if component.is_ok else "failing",
                "message": component.message,
                **({} if component.processes is None else {"processes": component.processes}),
            }
            for component in components
        },
    }
    response = JsonResponse(body, status=503 if missing else 200)
    # Django logs each 503 as an error of the server; here it is the answer.
    response._has_been_logged = True
    return response


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    return HttpResponse(exposition(), content_type=CONTENT_TYPE)
