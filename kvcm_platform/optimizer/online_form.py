"""The state of an online estimate as bytes: a head in JSON, then the arrays.

State and position in the stream of calls are one value, written in one command, so whoever goes on after a
crash counts every call once.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from kvcm_platform.core import sampling
from kvcm_platform.optimizer.online import FACTORS, Counts, OnlineStack

FORM_VERSION = 1
MOST_PROCESSES = 1024


@dataclass(slots=True)
class OnlineRecord:
    """`heard`: process -> calls that it has told so far; `lost_calls` = those that never came."""

    stack: OnlineStack = field(default_factory=OnlineStack)
    position: str = ""
    heard: dict[str, int] = field(default_factory=dict)
    lost_calls: int = 0
    calm_since_ms: int = 0
    """Since when far fewer blocks are sampled than there is room for; 0 = they are not."""

    def hear(self, process: str, calls: int, received: int) -> None:
        """Notes an entry of `received` calls, after which the process has told `calls`."""
        before = self.heard.pop(process, None)
        if before is not None:
            self.lost_calls += max(0, calls - received - before)
        self.heard[process] = calls
        while len(self.heard) > MOST_PROCESSES:
            del self.heard[next(iter(self.heard))]


def online_to_bytes(record: OnlineRecord) -> bytes:
    """720 KiB at most; `online_from_bytes` is its inverse."""
    stack = record.stack
    head = {
        "version": FORM_VERSION,
        "classes": [sampling.CLASS_ENDS, sampling.CLASS_BITS, FACTORS],
        "position": record.position,
        "heard": record.heard,
        "lost_calls": record.lost_calls,
        "calm_since_ms": record.calm_since_ms,
        "k": stack.k,
        "capacity_bytes": stack.capacity_bytes,
        "since_ms": stack.since_ms,
        "has_dropped": stack.has_dropped,
        "owners": stack.owners,
        "blocks": len(stack.ids),
        "window": [
            [minute, number, _counts_form(counts)]
            for minute, row in stack.window.items()
            for number, counts in row.items()
        ],
    }
    text = orjson.dumps(head)
    arrays = (stack.ids, stack.owner_of, stack.classes)
    return struct.pack("<I", len(text)) + text + b"".join(array.tobytes() for array in arrays)


def online_from_bytes(data: bytes) -> OnlineRecord:
    """Raises ValueError for what this version did not write: the estimate then begins anew."""
    try:
        return _read(data)
    except (KeyError, TypeError, IndexError, struct.error) as error:
        raise ValueError(f"no state of an estimate: {error}") from error


def _read(data: bytes) -> OnlineRecord:
    (length,) = struct.unpack_from("<I", data)
    head: dict[str, Any] = orjson.loads(data[4 : 4 + length])
    rules = [list(part) for part in (sampling.CLASS_ENDS, sampling.CLASS_BITS, FACTORS)]
    if head["version"] != FORM_VERSION or head["classes"] != rules:
        raise ValueError("the state of another version")
    count, at = head["blocks"], 4 + length
    # Copies: compiled code is made for arrays that may be written to.
    ids = np.frombuffer(data, dtype=np.uint64, count=count, offset=at).copy()
    owner_of = np.frombuffer(data, dtype=np.uint16, count=count, offset=at + 8 * count).copy()
    classes = np.frombuffer(data, dtype=np.uint8, count=count, offset=at + 10 * count).copy()
    stack = OnlineStack(
        k=head["k"],
        capacity_bytes=head["capacity_bytes"],
        since_ms=head["since_ms"],
        has_dropped=head["has_dropped"],
        owners=head["owners"],
        ids=ids,
        classes=classes,
        owner_of=owner_of,
    )
    if count and (int(owner_of.max()) >= len(stack.owners) or int(classes.max()) >= sampling.CLASSES):
        raise ValueError("the state names what it does not have")
    for minute, number, form in head["window"]:
        stack.window.setdefault(minute, {})[number] = _counts(form)
    return OnlineRecord(stack, head["position"], head["heard"], head["lost_calls"], head["calm_since_ms"])


def _counts_form(counts: Counts) -> list[Any]:
    return [counts.asked.tolist(), counts.real_hits, counts.sampled.tolist(), counts.hits.tolist()]


def _counts(form: list[Any]) -> Counts:
    asked, real_hits, sampled, hits = form
    return Counts(np.array(asked, np.int64), real_hits, np.array(sampled), np.array(hits))
