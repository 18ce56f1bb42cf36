"""Hides credentials in what is written down: the password part of URLs and members named like secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kvcm_platform.core.validation.secrets import HIDDEN, without_password

_SECRET_NAMES = re.compile(r"(^|_)(password|secret|token)$", re.IGNORECASE)


def masked(value: Any) -> Any:
    """A copy of a JSON value without its secrets."""
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if item and isinstance(item, str) and _SECRET_NAMES.search(key) else masked(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [masked(item) for item in value]
    if isinstance(value, str):
        return without_password(value)
    return value
