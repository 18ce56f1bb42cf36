"""Single values: numbers, texts, names, and parts of paths and keys."""

from __future__ import annotations

import re
from typing import Any

from kvcm_platform.core.errors import invalid

INT32 = (1 << 31) - 1
INT64 = (1 << 63) - 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_ACCOUNT = re.compile(r"[\w.@+-]{1,150}")
# URIs carry paths without percent-encoding, so what would end the path cannot be part of one.
_BREAKS_URI = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029\ud800-\udfff?#%\\]")
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
"""PostgreSQL keeps no NUL, and half of a surrogate pair can be neither stored nor shown as UTF-8."""
_SEGMENT_BYTES = 255
"""The longest name that file systems take."""


def number(name: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid(name, "must be a whole number")
    if not low <= value <= high:
        raise invalid(name, f"must be between {low} and {high}, not {value}")
    return value


def text(name: str, value: Any, *, is_required: bool, at_most: int = 4096) -> str:
    if not isinstance(value, str):
        raise invalid(name, "must be a text")
    if is_required and not value:
        raise invalid(name, "is required")
    if len(value) > at_most:
        raise invalid(name, f"must have at most {at_most} characters")
    if _UNSTORABLE.search(value):
        raise invalid(name, "must not contain NUL or half of a surrogate pair")
    return value


def check_object_name(value: str, *, field: str = "name") -> str:
    """A name of a storage or group: the host part of data URIs and a segment of REST paths."""
    if not _NAME.fullmatch(value or ""):
        raise invalid(
            field, "must be 1 to 128 letters, digits, '.', '_' or '-', beginning with a letter or digit"
        )
    return value


def check_account_name(value: str) -> str:
    if not _ACCOUNT.fullmatch(value or ""):
        raise invalid("username", "must be 1 to 150 letters, digits or any of . @ + - _")
    return value


def check_path_part(value: str, *, field: str, may_nest: bool = False) -> str:
    """A name that becomes part of a file's path: it must not lead out of its folder."""
    text(field, value, is_required=True, at_most=256)
    segments = value.split("/") if may_nest else [value]
    if any(segment in {"", ".", ".."} or "/" in segment for segment in segments):
        raise invalid(
            field, "must not contain empty, '.' or '..' path segments" + ("" if may_nest else " or '/'")
        )
    if _BREAKS_URI.search(value):
        raise invalid(field, "must not contain blanks, control characters or any of ? # % \\")
    if any(len(segment.encode()) > _SEGMENT_BYTES for segment in segments):
        raise invalid(field, f"must not have path segments of more than {_SEGMENT_BYTES} bytes")
    return value


def check_key_part(value: str, *, field: str, may_nest: bool = False) -> str:
    """A name that becomes part of an object's key: of a path, or of one parameter of a URI."""
    check_path_part(value, field=field, may_nest=may_nest)
    if "&" in value:
        raise invalid(field, "must not contain &")
    return value
