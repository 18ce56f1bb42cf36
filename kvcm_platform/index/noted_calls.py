"""One call of a watched instance, and what readers of the two streams are told of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvcm_platform.core import sampling
from kvcm_platform.core.masks import Mask, flags
from kvcm_platform.core.registry import InstanceEntry
from kvcm_platform.core.types import QueryType

from .request_entries import QUERY, START, SampledCalls, SampledInstance

PREFIX_QUERIES = (QueryType.PREFIX_MATCH, QueryType.PREFIX_MATCH_WITH_MAMBA)

_SHALLOW = 3
"""Classes whose blocks are few, and likely to be sampled."""


class Noted(NamedTuple):
    """One call. `hits` of a query; `session_id` of the others, "" for a Start that found no room."""

    kind: int
    instance: InstanceEntry
    keys: Sequence[int] | bytes
    mask: Mask
    at_us: int
    hits: int = 0
    query: int = 0
    session_id: str = ""
    tokens: int = 0
    sw_size: int = 0

    @property
    def raw(self) -> bytes:
        """The keys as int64."""
        return self.keys if isinstance(self.keys, bytes) else np.asarray(self.keys, dtype=np.int64).tobytes()


def is_sampled(noted: Noted) -> bool:
    return noted.kind == START or (noted.kind == QUERY and noted.query in PREFIX_QUERIES)


def is_captured(noted: Noted) -> bool:
    """All but Starts that found no room: they are no calls that a log of events has."""
    return noted.kind != START or bool(noted.session_id)


def event_of(noted: Noted) -> dict[str, Any]:
    event: dict[str, Any] = {
        "t": noted.kind,
        "i": noted.instance.instance_id,
        "us": noted.at_us,
        "n": len(noted.keys) >> 3 if isinstance(noted.keys, bytes) else len(noted.keys),
        "m": noted.mask if noted.mask is None or isinstance(noted.mask, int) else list(noted.mask),
    }
    if noted.kind == QUERY:
        event |= {"q": int(noted.query), "h": noted.hits}
        if noted.query == QueryType.REVERSE_ROLL_SW_MATCH:
            event["w"] = noted.sw_size
    else:
        event["s"] = noted.session_id
    if noted.tokens:
        event["k"] = noted.tokens
    return event


def sampled(noted: Sequence[Noted], k: int) -> SampledCalls:
    """What the online estimate is told of calls to one group: the blocks that are sampled at the rate `k`.

    Totals of what was asked and found are of all blocks. The caller fills in who tells and how many calls.
    """
    raws = [one.keys if isinstance(one.keys, bytes) else one.raw for one in noted]
    lengths = np.array([len(raw) >> 3 for raw in raws], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    position, instances = _instances(noted)
    kinds = np.array([one.kind for one in noted], dtype=np.uint8)
    offsets = np.array([one.mask if isinstance(one.mask, int) else 0 for one in noted], dtype=np.int64)
    hits = np.array([one.hits for one in noted], dtype=np.int64)

    ids = sampling.mixed(np.frombuffer(b"".join(raws), dtype=np.int64), _salts(instances, position, lengths))
    near = _near(ids, starts, lengths, k)
    of_call = (np.searchsorted(starts, near, side="right") - 1).astype(np.int64)
    depths = near - starts[of_call]
    is_query = (kinds == QUERY)[of_call]
    classes = np.where(is_query, sampling.classes_of(depths), sampling.UNKNOWN_DEPTH).astype(np.uint8)
    kept = sampling.is_sampled(ids[near], classes, k)
    near, of_call, depths, is_query = near[kept], of_call[kept], depths[kept], is_query[kept]
    is_asked = is_query & (depths >= offsets[of_call])
    is_hit = is_asked & (depths < (offsets + hits)[of_call])
    asked = _asked(np.where(kinds == QUERY, lengths, 0), offsets)
    for at, one in enumerate(noted):
        if one.mask is not None and not isinstance(one.mask, int) and one.kind == QUERY:
            own = np.flatnonzero(of_call == at)
            wanted = ~np.array(flags(one.mask, int(lengths[at])), dtype=bool)
            is_asked[own] = wanted[depths[own]]
            is_hit[own] = is_asked[own] & (np.cumsum(wanted) <= one.hits)[depths[own]]
            asked[at] = np.bincount(sampling.classes_of(np.flatnonzero(wanted)), minlength=sampling.CLASSES)

    sums = [np.bincount(position, amounts, len(instances)) for amounts in (*asked.T, hits)]
    *totals, found = np.array(sums).astype(np.int64)
    marks = is_asked * np.uint8(sampling.IS_ASKED) | is_hit * np.uint8(sampling.IS_HIT)
    return SampledCalls(
        process="",
        calls=0,
        at_ms=round(time.time() * 1000),
        k=k,
        instances=instances,
        asked=np.column_stack(totals),
        hits=found,
        ids=ids[near],
        flags=classes[kept] | marks,
        counts=np.bincount(of_call, minlength=len(noted)).astype(np.uint32),
        instance=position,
        kinds=kinds,
    )


def _salts(
    instances: Sequence[SampledInstance], position: NDArray[np.uint16], lengths: NDArray[np.int64]
) -> NDArray[np.uint64] | np.uint64:
    salts = np.array([sampling.salt_of(one.number) for one in instances], dtype=np.uint64)
    return salts[0] if len(salts) == 1 else np.repeat(salts[position], lengths)


def _near(
    ids: NDArray[np.uint64], starts: NDArray[np.int64], lengths: NDArray[np.int64], k: int
) -> NDArray[np.int64]:
    """Where blocks are that may be sampled: most are not, whatever their depth, and need no closer look."""
    shallow = np.arange(sampling.CLASS_ENDS[_SHALLOW - 1])
    is_near = ids <= sampling.limits(k)[_SHALLOW:].max()
    is_near[(starts[:, None] + shallow)[shallow < lengths[:, None]]] = True
    return np.flatnonzero(is_near)


def _asked(ends: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Calls × classes: blocks from each call's offset to its end."""
    bounds = np.array([0, *sampling.CLASS_ENDS, np.iinfo(np.int64).max])
    begins = np.minimum(offsets, ends)[:, None]
    inside = np.minimum(ends[:, None], bounds[1:]) - np.maximum(begins, bounds[:-1])
    return np.asarray(np.maximum(inside, 0), dtype=np.int64)


def _instances(noted: Sequence[Noted]) -> tuple[NDArray[np.uint16], tuple[SampledInstance, ...]]:
    """The position of each call's instance, and the instances. A flush has MOST_CALLS calls at most."""
    seen: dict[int, int] = {}
    found: list[SampledInstance] = []
    position = np.empty(len(noted), dtype=np.uint16)
    for at, one in enumerate(noted):
        number = one.instance.number
        place = seen.get(number)
        if place is None:
            place = seen[number] = len(found)
            found.append(SampledInstance(one.instance.instance_id, number))
        position[at] = place
    return position, tuple(found)
