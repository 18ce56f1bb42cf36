"""Hides credentials in what is written down: the password part of URLs and members named like secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kvcm_platform.core.validation.secrets import HIDDEN, without_password

_BEHIND_HOST = re.compile(r"^([a-z]+://[^/?]*[/?]).+$", re.IGNORECASE | re.DOTALL)
_SECRET_NAMES = re.compile(r"(^|_)(password|secret|token)$", re.IGNORECASE)


def masked(value: Any) -> Any:
    """A copy of a JSON value without its secrets."""
    if isinstance(value, Mapping):
        return {key: _member(key, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(item) for item in value]
    if isinstance(value, str):
        return without_password(value)
    return value


def _member(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return masked(value)
    if value and _SECRET_NAMES.search(name):
        return HIDDEN
    # Of a webhook: who knows its path may write there. What it was changed to is seen at the receiver.
    return _BEHIND_HOST.sub(rf"\1{HIDDEN}", value) if name == "url" else masked(value)
