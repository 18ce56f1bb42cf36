"""Entries of the two streams of calls: field `h` -> JSON, field `d` -> numbers one after the other.

Sampled (the online estimate): `h` = {"process", "calls", "at": unix ms, "k", "instances": [{"id", "number"}],
"asked": [[blocks by class] an instance], "hits": [blocks an instance], "requests", "accesses"}; `d` =
accesses × uint64 ids, requests × uint32 accesses of it, requests × uint16 instance, requests × uint8 kind,
accesses × uint8 flags. `calls` counts all calls that the process noted for the group so far, those included
that found no room: where it is more than what was received, something was lost.

Captured: `h` = {"process", "first", "events": [{"t": kind, "i": instance, "us": unix us, "n": keys, …}]};
`d` = the keys of all events as int64. `first` is the number of the first event among all of the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

QUERY, START, FINISH = 0, 1, 2
"""Kinds of calls. A sampled stream has no Finish."""


@dataclass(frozen=True, slots=True)
class SampledInstance:
    instance_id: str
    number: int


@dataclass(frozen=True, slots=True)
class SampledCalls:
    """What one process tells of some calls to instances of one group, in order."""

    process: str
    calls: int
    at_ms: int
    k: int
    instances: tuple[SampledInstance, ...]
    asked: NDArray[np.int64]
    """Instances × classes: blocks that queries asked for, all of them."""
    hits: NDArray[np.int64]
    """Instances: how many of these were found."""
    ids: NDArray[np.uint64]
    """The sampled blocks of all calls, first block first."""
    flags: NDArray[np.uint8]
    """By block, as core.sampling has them."""
    counts: NDArray[np.uint32]
    """Calls: how many of `ids` are its own."""
    instance: NDArray[np.uint16]
    """Calls: position in `instances`."""
    kinds: NDArray[np.uint8]


def encode_sampled(calls: SampledCalls) -> tuple[bytes, bytes]:
    """(`h`, `d`)."""
    head = {
        "process": calls.process,
        "calls": calls.calls,
        "at": calls.at_ms,
        "k": calls.k,
        "instances": [{"id": one.instance_id, "number": one.number} for one in calls.instances],
        "asked": calls.asked.tolist(),
        "hits": calls.hits.tolist(),
        "requests": len(calls.counts),
        "accesses": len(calls.ids),
    }
    parts = (calls.ids, calls.counts, calls.instance, calls.kinds, calls.flags)
    return orjson.dumps(head), b"".join(part.tobytes() for part in parts)


def decode_sampled(fields: Mapping[bytes, bytes]) -> SampledCalls:
    """Raises KeyError or ValueError for what is no entry of a sampled stream."""
    head: dict[str, Any] = orjson.loads(fields[b"h"])
    data, requests, accesses = fields[b"d"], head["requests"], head["accesses"]
    arrays: list[NDArray[Any]] = []
    at = 0
    for kind, count in (
        (np.uint64, accesses),
        (np.uint32, requests),
        (np.uint16, requests),
        (np.uint8, requests),
        (np.uint8, accesses),
    ):
        arrays.append(np.frombuffer(data, dtype=kind, count=count, offset=at))
        at += arrays[-1].nbytes
    ids, counts, instance, kinds, flags = arrays
    instances = tuple(SampledInstance(one["id"], one["number"]) for one in head["instances"])
    if (
        at != len(data)
        or int(counts.sum()) != accesses
        or (requests and int(instance.max()) >= len(instances))
    ):
        raise ValueError("an entry of sampled calls does not fit its head")
    return SampledCalls(
        process=head["process"],
        calls=head["calls"],
        at_ms=head["at"],
        k=head["k"],
        instances=instances,
        asked=np.asarray(head["asked"], dtype=np.int64).reshape(len(instances), -1),
        hits=np.asarray(head["hits"], dtype=np.int64),
        ids=ids,
        flags=flags,
        counts=counts,
        instance=instance,
        kinds=kinds,
    )


@dataclass(frozen=True, slots=True)
class CapturedEvents:
    """`first` is the number of the first event among all that the process noted for the capture."""

    process: str
    first: int
    events: Sequence[Mapping[str, Any]]
    keys: NDArray[np.int64]
    """Of all events, one after the other; each event's `n` says how many are its own."""


def encode_captured(captured: CapturedEvents) -> tuple[bytes, bytes]:
    """(`h`, `d`)."""
    head = {"process": captured.process, "first": captured.first, "events": captured.events}
    return orjson.dumps(head), captured.keys.tobytes()


def decode_captured(fields: Mapping[bytes, bytes]) -> CapturedEvents:
    """Raises KeyError or ValueError for what is no entry of a captured stream."""
    head: dict[str, Any] = orjson.loads(fields[b"h"])
    keys = np.frombuffer(fields[b"d"], dtype=np.int64)
    if sum(event["n"] for event in head["events"]) != len(keys):
        raise ValueError("an entry of captured calls does not fit its head")
    return CapturedEvents(head["process"], head["first"], head["events"], keys)
