"""Optimistic locks over REST: `version` in the body, or the header If-Match."""

from __future__ import annotations

from rest_framework.request import Request

from kvcm_platform.core.errors import invalid

_MOST_DIGITS = 20


def expected_version(request: Request, in_body: int | None) -> int | None:
    """The version that the caller's change was made for; None where it does not say."""
    header = request.headers.get("If-Match", "").strip()
    if not header or header == "*":
        return in_body
    text = header.removeprefix("W/").strip('"')
    if not (text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise invalid("version", "If-Match must be the number that `version` showed")
    return int(text)
