"""What is known of Mooncake's stores on either side of the process that holds their client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NO_SPACE, MISSING, HAS_LEASE, BUSY = -200, -704, -706, frozenset({-708, -714})
MASTER_AWAY = frozenset({-900, -901})
_SAID = {
    -101: "the segment is gone",
    NO_SPACE: "no space is left in its segments",
    -600: "the store refuses the arguments",
    -703: "it is not written to its end",
    MISSING: "it is not there",
    -705: "it is there already",
    HAS_LEASE: "a reader's lease on it has not run out",
    -707: "the lease ran out while it was read",
    -708: "it is being copied",
    -714: "it is in use",
    -800: "the bytes could not be moved",
    -900: "the master does not answer",
    -901: "the master does not answer",
}


def said(code: int) -> str:
    """What an error code of the store means."""
    return f"{_SAID.get(code, 'the store failed')} (code {code})"


class StoreAway(OSError):
    """No answer of the store: it hangs, its client died or could not be started."""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """What a client of a store is set up with; the members of the storage's spec."""

    local_hostname: str
    metadata_connstring: str
    protocol: str
    rdma_device: str
    master_service_entry: str

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> StoreSettings:
        return cls(
            str(spec.get("local_hostname") or "localhost"),
            str(spec.get("metadata_connstring") or ""),
            str(spec.get("protocol") or "tcp"),
            str(spec.get("rdma_device") or ""),
            str(spec.get("master_service_entry") or ""),
        )
