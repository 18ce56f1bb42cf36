"""Faults that a test of an engine asks for: which calls fail on purpose (WIRE.md 1.5, debug)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import invalid

FAULTY_APIS = ("GetCacheLocation", "StartWriteCache", "FinishWriteCache")
"""What faults act on."""
_CALL_NUMBER = re.compile(r"_(-?[0-9]{1,10})\Z")


@dataclass(frozen=True, slots=True)
class Fault:
    """Fails every call of an API, or with `at_call` the one whose trace id ends in `_<at_call>`."""

    at_call: int | None = None

    def strikes(self, trace_id: str) -> bool:
        if self.at_call is None:
            return True
        found = _CALL_NUMBER.search(trace_id)
        return found is not None and int(found[1]) == self.at_call


def check_api(name: str) -> str:
    """Raises INVALID_ARGUMENT for an API that faults do not act on."""
    if name not in FAULTY_APIS:
        raise invalid("api_name", f"must be one of {', '.join(FAULTY_APIS)}")
    return name
