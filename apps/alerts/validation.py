"""What rules, silences and receivers may say. Raises DomainError with the field at fault."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from apps.common.conditions import Condition, Severity
from kvcm_platform.core.errors import invalid
from kvcm_platform.core.validation.values import number, text

MOST_SECONDS = 7 * 24 * 3600
_MOST_PATTERNS = 50
_LONGEST_SILENCE = timedelta(days=366)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
_HOP_BY_HOP = frozenset(
    {"connection", "content-length", "content-type", "host", "te", "trailer", "transfer-encoding", "upgrade"}
)


def check_parameters(condition: Condition, given: Mapping[str, Any]) -> dict[str, float]:
    """The parameters of a rule: those given, defaults for the rest."""
    known = {parameter.name: parameter for parameter in condition.parameters}
    for name in given:
        if name not in known:
            raise invalid(f"parameters.{name}", f"the condition {condition.name} has no such parameter")
    checked = {}
    for name, parameter in known.items():
        value = given.get(name, parameter.default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise invalid(f"parameters.{name}", "must be a number")
        if not parameter.minimum <= value <= parameter.maximum:
            low, high = parameter.minimum, parameter.maximum
            raise invalid(f"parameters.{name}", f"must be between {low:g} and {high:g}, not {value:g}")
        checked[name] = value
    return checked


def check_severity(field: str, value: str) -> Severity:
    try:
        return Severity(value)
    except ValueError as error:
        raise invalid(field, f"must be one of {', '.join(Severity)}") from error


def check_seconds(field: str, value: Any) -> int:
    return number(field, value, 0, MOST_SECONDS)


def check_subjects(patterns: Sequence[str]) -> list[str]:
    """Patterns of names with `*` and `?`; none = every subject."""
    if len(patterns) > _MOST_PATTERNS:
        raise invalid("subjects", f"must be at most {_MOST_PATTERNS} patterns")
    return [text("subjects", pattern, is_required=True, at_most=256) for pattern in patterns]


def check_until(until: datetime, now: datetime) -> datetime:
    if until <= now:
        raise invalid("until", "must be in the future")
    if until - now > _LONGEST_SILENCE:
        raise invalid("until", f"must be within {_LONGEST_SILENCE.days} days")
    return until


def check_url(value: str) -> str:
    """An http(s) URL without credentials; whether its address may be called is asked at each delivery."""
    text("url", value, is_required=True, at_most=2048)
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError as error:
        raise invalid("url", str(error)) from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise invalid("url", "must be http://host… or https://host…")
    if parts.username is not None or parts.password is not None:
        raise invalid("url", "must hold no credentials: they belong into the secret")
    if parts.fragment or not _PRINTABLE.fullmatch(value) or " " in value:
        raise invalid("url", "must be plain ASCII without spaces or fragment")
    return value


def check_header(name: str) -> str:
    if not _HEADER.fullmatch(name) or name.lower() in _HOP_BY_HOP:
        raise invalid("secret_header", "must be the name of a header that a webhook may carry")
    return name


def check_secret(value: str) -> str:
    text("secret", value, is_required=False, at_most=1024)
    if not _PRINTABLE.fullmatch(value):
        raise invalid("secret", "must be printable ASCII")
    return value


def check_timeout(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0.1 <= value <= 30:
        raise invalid("timeout_seconds", "must be between 0.1 and 30")
    return float(value)
