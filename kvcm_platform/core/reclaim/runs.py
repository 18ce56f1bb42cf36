"""A reclaim run as it is told: from what set it off to the last byte freed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, TypeVar

K = TypeVar("K")


class Trigger(StrEnum):
    """What set a run off.

    WATERMARK: a high mark was reached. QUOTA: a limit lies below what is used, as after it was lowered.
    REFUSED: a Start found no room. TTL: blocks were not used for the group's `ttl_seconds`.
    REQUEST: somebody asked.
    """

    WATERMARK = "watermark"
    QUOTA = "quota"
    REFUSED = "refused"
    TTL = "ttl"
    REQUEST = "request"


class RunState(StrEnum):
    """QUEUED (requests alone), CHOOSING blocks and marking them, DELETING what was marked, then an end."""

    QUEUED = "queued"
    CHOOSING = "choosing"
    DELETING = "deleting"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


RUN_ID_BYTES = 8
MOST = 2**53
"""Larger amounts mean nothing."""

ENDED = frozenset({RunState.DONE, RunState.CANCELLED, RunState.FAILED})


class Stop(StrEnum):
    """Why a run chose no further blocks.

    ENOUGH: the target was reached. NOTHING_LEFT: every block that may go is gone.
    CANCELLED: somebody ended it. ERRORS: blocks could not be marked. GONE: the group was removed.
    """

    ENOUGH = "enough"
    NOTHING_LEFT = "nothing_left"
    CANCELLED = "cancelled"
    ERRORS = "errors"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class ReclaimRequest:
    """What somebody asked for. One of the amounts at most; none = down to the low marks, or with
    `idle_seconds` whatever was not used for so long.
    """

    id: str
    group: str
    instance_id: str = ""
    """Only blocks of this one; empty = of the whole group."""
    storage: str = ""
    """Only blocks on this storage; empty = on all."""
    bytes: int = 0
    blocks: int = 0
    percent: float = 0.0
    """Of the bytes that could be evicted within the scope, at most 100; 0 = unset."""
    idle_seconds: int = 0
    """Only blocks that were not used for so long."""
    by: str = ""
    """Who asked, for the record."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ReclaimRequest:
        """Raises ValueError or TypeError for what is no request."""
        found = cls(**data)
        if len(bytes.fromhex(found.id)) != RUN_ID_BYTES:
            raise ValueError(f"{found.id!r} is no id of a run")
        for name in ("bytes", "blocks", "idle_seconds"):
            amount = getattr(found, name)
            if type(amount) is not int or not 0 <= amount <= MOST:
                raise ValueError(f"{name} is {amount!r}")
        if not 0 <= found.percent <= 100:
            raise ValueError(f"percent is {found.percent!r}")
        return found

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def share_add(shares: dict[K, list[int]], name: K, blocks: int, size: int) -> None:
    """Adds to one of several [blocks, bytes]."""
    two = shares.setdefault(name, [0, 0])
    two[0] += blocks
    two[1] += size


@dataclass(slots=True)
class RunReport:
    """The whole state of one run; each entry of the reports' stream is one of these, the newest counts.

    Times are unix ms of the index's clock, 0 = not yet. `used_*` are the group's bytes that are written or
    served plus open reservations (what the marks compare).
    """

    id: str
    """16 hex digits, unique on the platform: what pending deletions and the stream of gone blocks name."""
    group: str
    trigger: Trigger
    state: RunState
    policy: str
    budget: str
    scopes: list[dict[str, Any]] = field(default_factory=list)
    """Over its mark: {scope, subject, used, limit, high, low, need}; bytes, or keys with scope `keys`."""
    request: dict[str, Any] | None = None
    planned_blocks: int = 0
    planned_bytes: int = 0
    chosen_blocks: int = 0
    chosen_bytes: int = 0
    freed_blocks: int = 0
    freed_bytes: int = 0
    failed_blocks: int = 0
    """Their storage refused the deletion and they wait for the next attempt, or became orphans at the end."""
    failed_bytes: int = 0
    by_instance: dict[str, list[int]] = field(default_factory=dict)
    """Instance id -> [blocks, bytes] chosen."""
    by_storage: dict[str, list[int]] = field(default_factory=dict)
    """Storage name -> the same."""
    capacity_bytes: int = 0
    used_before_bytes: int = 0
    used_after_bytes: int = 0
    oldest_use_ms: int = 0
    newest_use_ms: int = 0
    """Last uses of the first and the last run of blocks that was chosen."""
    began_ms: int = 0
    marked_ms: int = 0
    """When the last block was chosen."""
    ended_ms: int = 0
    rounds: int = 0
    busy_ms: int = 0
    stop: str = ""
    detail: str = ""

    @classmethod
    def not_begun(
        cls,
        request: ReclaimRequest,
        state: RunState,
        stop: Stop,
        now_ms: int,
        *,
        policy: str = "",
        budget: str = "",
        detail: str = "",
    ) -> RunReport:
        """The end of a request that never became a run."""
        return cls(
            *(request.id, request.group, Trigger.REQUEST, state, policy, budget),
            request=request.to_dict(),
            ended_ms=now_ms,
            stop=stop.value,
            detail=detail,
        )

    def choose_no_more(self, stop: Stop, now_ms: int) -> None:
        """What was marked waits for its deletion from now on."""
        self.state, self.stop, self.marked_ms = RunState.DELETING, stop.value, now_ms

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunReport:
        known = {name: value for name, value in data.items() if name in cls.__dataclass_fields__}
        return cls(**{**known, "trigger": Trigger(data["trigger"]), "state": RunState(data["state"])})


_LONGEST = {"id": 16, "group": 128, "policy": 16, "budget": 24, "stop": 16}
_LAST_MS = 253_402_300_799_999
"""The end of the year 9999, with which times end."""
_MOST = {"rounds": (1 << 31) - 1}
_INT64 = (1 << 63) - 1


def checked(report: RunReport) -> RunReport:
    """The report, if every member is what it says. Raises TypeError and ValueError for one that is not.

    What a reclaimer of another version wrote must not hold up the record of all others.
    """
    for member in fields(report):
        name, value = member.name, getattr(report, member.name)
        if member.type == "int":
            if name.endswith("_ms") and name != "busy_ms":
                _whole(name, value, 0, _LAST_MS)
            else:
                _whole(name, value, -_INT64, _MOST.get(name, _INT64))
        elif member.type == "str":
            if not isinstance(value, str) or len(value) > _LONGEST.get(name, len(value)):
                raise ValueError(f"{name} is no text of a length that is known")
            value.encode()
    for shares in (report.by_instance, report.by_storage):
        for blocks, size in shares.values():
            _whole("blocks", blocks, 0, _INT64)
            _whole("bytes", size, 0, _INT64)
    if not isinstance(report.request, dict | None) or not isinstance(report.scopes, list):
        raise TypeError("a request and scopes have another form")
    return report


def _whole(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} is no number that is known: {value!r:.50}")
