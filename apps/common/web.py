"""Serves the front end's page for its own addresses."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

_MISSING = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>KVCM Platform</title></head>
<body><h1>The web page is not built yet</h1>
<p>Run <code>make setup</code> (it needs Node.js 20 or newer), then reload this page.
REST answers below <a href="/api/v1/schema">/api/v1/</a> meanwhile.</p></body></html>
"""


@require_safe
@never_cache
@ensure_csrf_cookie
def page(request: HttpRequest) -> HttpResponse:
    """The front end's one page, with the CSRF cookie; it finds its way by the address itself."""
    try:
        content = (settings.FRONTEND_DIST / "index.html").read_bytes()
    except FileNotFoundError:
        return HttpResponse(_MISSING, status=503)
    return HttpResponse(content)
