"""Which pages may open the live socket."""

from __future__ import annotations

from urllib.parse import ParseResult

from channels.security.websocket import OriginValidator
from django.conf import settings


class LiveOriginValidator(OriginValidator):
    """Pages of the allowed hosts, and callers that are no pages.

    Browsers always say where a page comes from, and only they carry a cookie without their user
    knowing. A script that says nothing brings its own ticket or cookie on purpose.
    """

    def __init__(self, application: object) -> None:
        super().__init__(application, settings.ALLOWED_HOSTS)

    def valid_origin(self, parsed_origin: ParseResult | None) -> bool:
        return parsed_origin is None or bool(super().valid_origin(parsed_origin))
