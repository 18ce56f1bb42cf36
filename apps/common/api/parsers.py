"""Bodies of REST: JSON whose texts can be stored and shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import JSONParser

from kvcm_platform.core.errors import Code, DomainError

_HALF = re.compile("[\ud800-\udfff]")


class TextJSONParser(JSONParser):
    """JSON may spell half of a surrogate pair; no answer that repeated it could be sent as UTF-8."""

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Raises INVALID_ARGUMENT for such a text, naming the member, as well."""
        body = super().parse(stream, media_type, parser_context)
        field = _where_half(body, "")
        if field is not None:
            raise DomainError(
                Code.INVALID_ARGUMENT,
                "a text holds half of a surrogate pair, which is no character",
                field=field or None,
            )
        return body


def _where_half(value: Any, field: str) -> str | None:
    """The first member with such a text; that around it where its name is one. None = there is none."""
    if isinstance(value, str):
        return field if _HALF.search(value) else None
    if isinstance(value, list):
        inner = ((item, field) for item in value)
    elif isinstance(value, dict):
        if any(map(_HALF.search, value)):
            return field
        inner = ((item, f"{field}.{name}".lstrip(".")) for name, item in value.items())
    else:
        return None
    return next((at for at in (_where_half(*pair) for pair in inner) if at is not None), None)
