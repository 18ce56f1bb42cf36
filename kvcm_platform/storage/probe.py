"""Tells whether a storage works, within a time limit: a hung mount must not hang the checker."""

from __future__ import annotations

import errno
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from kvcm_platform.core.registry import StorageEntry
from kvcm_platform.core.validation.values import INT64
from kvcm_platform.storage.backend import ProbeOrder, ProbeResult, SegmentSeen
from kvcm_platform.storage.registry import KINDS

__all__ = ["PROBE_SECONDS", "ProbeResult", "probe"]

PROBE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class _Probing:
    """A probe under way, and until when it may be. A thread stuck in a dead mount cannot be ended."""

    thread: threading.Thread
    until: float


_running: dict[str, _Probing] = {}
"""By target: to one that hangs no other is added."""
_lock = threading.Lock()
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
_LONGEST_NAME = 128
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


def probe(
    entry: StorageEntry,
    *,
    may_create_root: bool = False,
    is_trial: bool = False,
    seconds: float = PROBE_SECONDS,
    owner: str = "",
) -> ProbeResult:
    """Try the storage once; never raises, never takes longer than `seconds`.

    `may_create_root` first makes what a new storage lacks, in the name of `owner`. `is_trial`: it is
    not one yet, so what it lacks is no fault where it could be made; nothing is left behind.
    """
    kind = KINDS.get(entry.type)
    if kind is None:
        return ProbeResult(False, f"storages of type {entry.type} cannot hold blocks in this version")
    order = ProbeOrder(seconds, may_create_root, owner, is_trial)
    try:
        target = f"{entry.type}:{kind.target(entry)}"
    except (KeyError, ValueError) as error:
        return ProbeResult(False, f"the spec cannot be used: {error!r}")
    return _storable(_within(seconds, target, lambda: kind.probe(entry, order)))


def _storable(result: ProbeResult) -> ProbeResult:
    """The result without what cannot be put on record, whatever it was that answered."""
    kept = tuple(segment for segment in result.segments if _is_storable(segment))
    message = _UNSTORABLE.sub("?", result.message)
    if len(kept) < len(result.segments):
        left_out = f"{len(result.segments) - len(kept)} segments with names or sizes that cannot be kept"
        message = "; ".join(filter(None, (message, left_out)))
    return replace(
        result, message=message, segments=kept, content_life=_UNSTORABLE.sub("?", result.content_life)
    )


def _is_storable(segment: SegmentSeen) -> bool:
    names = (segment.node_id, segment.segment_id)
    is_named = all(0 < len(name) <= _LONGEST_NAME and not _UNSTORABLE.search(name) for name in names)
    return is_named and 0 <= segment.size_bytes <= INT64 and 0 <= segment.used_bytes <= INT64


def _within(seconds: float, target: str, work: Callable[[], ProbeResult]) -> ProbeResult:
    outcome: list[ProbeResult | Exception] = []

    def run() -> None:
        try:
            outcome.append(work())
        except Exception as error:  # noqa: BLE001 - whatever a backend raises is a failed probe
            outcome.append(error)

    until = time.monotonic() + seconds
    thread = threading.Thread(target=run, name=f"probe {target}", daemon=True)
    reason = _begin(target, thread, until)
    if reason:
        return ProbeResult(False, reason)
    started = time.monotonic()
    thread.join(max(0.0, until - started))
    if not outcome:
        return ProbeResult(False, f"no answer within {seconds:g} s")
    latency_ms = round((time.monotonic() - started) * 1000, 3)
    result = outcome[0]
    if isinstance(result, ProbeResult):
        return replace(result, latency_ms=latency_ms if result.latency_ms is None else result.latency_ms)
    return _failed(target.partition(":")[2], result, latency_ms)


def _begin(target: str, thread: threading.Thread, until: float) -> str:
    """Start a probe once the one before it is over; the reason where that one hangs.

    One that is merely under way (somebody tries a storage while it is checked) is waited for.
    """
    while True:
        with _lock:
            other = _running.get(target)
            if other is None or not other.thread.is_alive():
                _running[target] = _Probing(thread, until)
                thread.start()
                return ""
        now = time.monotonic()
        if now >= other.until:
            return "an earlier check of it still hangs"
        if now >= until:
            return "another check of it is still under way"
        other.thread.join(min(other.until, until) - now)


def _failed(target: str, error: Exception, latency_ms: float) -> ProbeResult:
    is_full = isinstance(error, OSError) and error.errno in _FULL
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or repr(error)
    return ProbeResult(is_full, f"{target}: {reason}", latency_ms, is_full)
