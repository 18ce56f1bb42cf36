"""Answers of the optimizer: hits by capacity, with the definition they were counted by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

Progress = Callable[[float], None]
"""Told the share done (0..1), at least a few times a second of work; what it raises ends the computation."""


def progress_part(on_progress: Progress | None, begin: float, end: float) -> Progress:
    """Progress of a step that leads from the share `begin` to `end` of the whole."""

    def tell(share: float) -> None:
        if on_progress is not None:
            on_progress(begin + (end - begin) * share)

    return tell


class Touch(StrEnum):
    DEEP = "deep"
    """A request uses its blocks deepest first, so that the root is the most recent: resident = hit."""
    ROOT = "root"
    """Root first, as a plain block cache does: leaves holes."""


class Unit(StrEnum):
    BLOCKS = "blocks"
    BYTES = "bytes"


class Events(StrEnum):
    TURN = "turn"
    """A request reads and brings its blocks at once."""
    READ_WRITE = "read_write"
    """Reads refresh what they hit; writes bring blocks `delay_us` later."""


@dataclass(frozen=True, slots=True)
class Definition:
    """How a result was counted; printed with every result.

    `policy` is a name of `optimizer.policies` or `lru`, `ttl`, `belady`; `touch` is empty where the order
    within a request has no meaning. `sampling` says how the trace was thinned, empty if it was not.
    """

    policy: str
    touch: str = ""
    events: str = Events.TURN
    delay_us: int = 0
    unit: str = Unit.BLOCKS
    has_partial_blocks: bool = False
    is_exact: bool = True
    sampling: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Curve:
    """Hits at C capacities, ascending, each exact (or as `definition.sampling` says).

    Totals count what was asked for: blocks that the engine had itself (`skip_n`) are neither asked nor hit.
    `hit_token_positions` is the sum, over all hit tokens, of their position in the prompt: with it the
    prefill seconds saved follow for any cost that grows linearly with the position (roi), without a replay.
    Unlimited = a cache that never evicts; `blocks - unlimited_hit_blocks` are the compulsory misses.
    """

    definition: Definition
    capacities: Int64
    """In blocks, bytes (definition.unit), or for `ttl` in microseconds."""
    hit_blocks: Int64
    hit_tokens: Int64
    hit_bytes: Int64
    hit_token_positions: Float64
    full_hit_requests: Int64
    """Requests whose whole lookup hit."""
    requests: int
    blocks: int
    tokens: int
    bytes: int
    """0 where the trace does not know the size of blocks; so are `hit_bytes`."""
    distinct_blocks: int
    distinct_bytes: int
    unlimited_hit_blocks: int
    unlimited_hit_tokens: int
    span_us: int
    series: dict[str, Float64] = field(default_factory=dict)
    """More by capacity: `orphan_share` (resident, but behind a hole), `mean_resident`, `evicted_blocks`"""

    @property
    def hit_rate(self) -> Float64:
        """Hit blocks to blocks asked for, by capacity."""
        return np.asarray(self.hit_blocks / max(1, self.blocks), dtype=np.float64)

    @property
    def token_hit_rate(self) -> Float64:
        return np.asarray(self.hit_tokens / max(1, self.tokens), dtype=np.float64)


_ARRAYS = {
    "capacities": np.int64,
    "hit_blocks": np.int64,
    "hit_tokens": np.int64,
    "hit_bytes": np.int64,
    "hit_token_positions": np.float64,
    "full_hit_requests": np.int64,
}
_NUMBERS = (
    "requests",
    "blocks",
    "tokens",
    "bytes",
    "distinct_blocks",
    "distinct_bytes",
    "unlimited_hit_blocks",
    "unlimited_hit_tokens",
    "span_us",
)


def curve_to_json(curve: Curve) -> dict[str, Any]:
    """JSON-ready, whole; `curve_from_json` is its inverse."""
    definition = {name: getattr(curve.definition, name) for name in Definition.__dataclass_fields__}
    return {
        "definition": definition,
        **{name: getattr(curve, name).tolist() for name in _ARRAYS},
        **{name: int(getattr(curve, name)) for name in _NUMBERS},
        "series": {name: values.tolist() for name, values in curve.series.items()},
    }


def curve_from_json(data: dict[str, Any]) -> Curve:
    """Raises KeyError, TypeError or ValueError for what `curve_to_json` did not write."""
    numbers: dict[str, Any] = {name: int(data[name]) for name in _NUMBERS}
    arrays: dict[str, Any] = {name: np.asarray(data[name], dtype=kind) for name, kind in _ARRAYS.items()}
    series = {name: np.asarray(values, dtype=np.float64) for name, values in data["series"].items()}
    return Curve(definition=Definition(**data["definition"]), series=series, **numbers, **arrays)
