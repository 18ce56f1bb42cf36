"""Texts of other people's files, as a database takes them."""

from __future__ import annotations

from typing import Any

_REPLACEMENT = "\ufffd"


def storable(value: Any) -> Any:
    """JSON-ready `value` without what PostgreSQL refuses in texts and JSON: NUL, and halves of characters."""
    if isinstance(value, str):
        whole = value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        return whole.replace("\0", _REPLACEMENT)
    if isinstance(value, dict):
        return {storable(name): storable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return value
