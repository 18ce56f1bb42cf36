"""Generated traces: for speed, memory and error at sizes that no public trace has, and for a look around.

Multi-turn sessions that begin with one of many system prompts (popular by Zipf's law) and come back after
a log-normal age. Its locality is chosen, not calibrated: no conclusions about policies from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from kvcm_platform.core.errors import invalid

from .curve import Progress
from .generated_chains import plan_sessions, write_chains
from .trace import Event, Int8, Int32, Int64, Trace, TraceHeader, TraceInstance
from .traces import open_trace
from .traces.columns import take_room
from .traces.directories import new_directory
from .traces.header import header_write

MOST_REQUESTS = 100_000_000
MOST_INSTANCES = 1_000
MOST_DISTINCT = 2**31 - 1
ZIPF = 1.1
CHUNK_REQUESTS = 100_000
TYPES = ("chat", "agent", "completion")

# By type: share of the sessions, chance that a request goes on with a session, of its user blocks the
# logarithm's mean and deviation.
_TYPES = np.array([[0.55, 0.42, 1.65, 1.0], [0.15, 0.77, 1.55, 0.9], [0.30, 0.0, 1.85, 1.1]])
_AGE = (8.0, 2.0)
"""Logarithm of the requests between two turns of a session: mean (3,000 requests) and deviation."""

Columns = Callable[[str, Any, int], NDArray[Any]]
"""Makes the array of a column: name, type, length."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a generated trace is like. Sizes are of every instance's blocks."""

    instances: int = 1
    system_prompts: int = 20_000
    """Of each instance."""
    block_tokens: int = 512
    block_bytes: int = 512 * 131_072
    """Keys and values of a model of 8 G parameters: 128 KiB a token."""
    mean_interval_us: int = 100_000
    is_output_kept: bool = False
    """A turn brings the blocks of its output; else they are new in the session's next prompt."""


def generate(
    requests: int,
    *,
    seed: int = 0,
    shape: Shape | None = None,
    columns: Columns | None = None,
    on_progress: Progress | None = None,
) -> Trace:
    """A trace of so many requests, the same for the same seed and shape; about 25 blocks a request.

    `columns` makes the arrays (default: in memory; 4 bytes a block, 20 a distinct block, 49 a request).
    Raises INVALID_ARGUMENT for a shape beyond the limits of this module.
    """
    shape = shape or Shape()
    make: Columns = columns or _in_memory
    _check(requests, seed, shape)
    plan = _Plan.zeros(requests)
    start = np.random.default_rng(seed).integers(2**62)
    state = np.array([start, 0, 0, 0], dtype=np.int64)
    popularity = _popularity(shape.system_prompts, ZIPF)
    owners = _popularity(shape.instances, 1.0)
    firsts = np.full(shape.system_prompts * shape.instances, -1, dtype=np.int32)
    lengths = _prompt_lengths(len(firsts), seed)
    at_us: Int64 = make("at_us", np.int64, requests)
    offset: Int64 = make("offset", np.int64, requests + 1)
    read_n: Int32 = make("read_n", np.int32, requests)
    whole: dict[str, Int32] = {
        name: make(name, np.int32, requests)
        for name in ("instance", "type", "session", "input_tokens", "output_tokens", "skip_n")
    }
    for begin in range(0, requests, CHUNK_REQUESTS):
        end = min(requests, begin + CHUNK_REQUESTS)
        arguments: tuple[Any, ...] = (
            *(begin, end, state, _TYPES, popularity, owners, lengths, shape.block_tokens),
            *(shape.mean_interval_us, shape.is_output_kept, _AGE[0], _AGE[1]),
            *(plan.previous, plan.prompt, plan.is_latest, plan.fresh),
            *(at_us, offset, read_n, whole["instance"], whole["type"], whole["session"]),
            *(whole["input_tokens"], whole["output_tokens"]),
        )
        plan_sessions(*arguments)
        _tell(on_progress, 0.3 * end / requests)
    # A prompt is fresh where it is first used; counted after the plan, since that is when all is known.
    used = np.unique(plan.prompt[plan.previous < 0])
    distinct = int(state[2]) + int(lengths[used].sum())
    if distinct > MOST_DISTINCT:
        raise invalid(
            "requests", f"{requests} would make {distinct} distinct blocks, at most {MOST_DISTINCT}"
        )
    path: Int32 = make("path", np.int32, int(offset[-1]))
    nodes: dict[str, Int32] = {
        name: make(name, np.int32, distinct) for name in ("parent", "depth", "path_instance")
    }
    key: Int64 = make("key", np.int64, distinct)
    next_id = np.zeros(1, dtype=np.int64)
    for begin in range(0, requests, CHUNK_REQUESTS):
        end = min(requests, begin + CHUNK_REQUESTS)
        write_chains(
            *(begin, end, seed, next_id, firsts, lengths, plan.previous, plan.prompt, plan.fresh),
            *(offset, whole["instance"], path, nodes["parent"], nodes["depth"], key, nodes["path_instance"]),
        )
        _tell(on_progress, 0.3 + 0.7 * end / requests)
    event: Int8 = make("event", np.int8, requests)
    event[:] = Event.TURN
    return Trace(
        header=header_of(seed, shape),
        at_us=at_us,
        event=event,
        offset=offset,
        read_n=read_n,
        path=path,
        key=key,
        **whole,
        **nodes,
    )


def generate_into(
    target: Path,
    requests: int,
    *,
    seed: int = 0,
    shape: Shape | None = None,
    on_progress: Progress | None = None,
) -> Trace:
    """`generate` into a new directory, as `traces.ingest` makes them: memory maps, for any size.

    Raises also TraceReadError target_exists.
    """
    with new_directory(target) as directory:
        trace = generate(
            requests,
            seed=seed,
            shape=shape,
            columns=lambda name, kind, length: _column(directory / f"{name}.npy", kind, length),
            on_progress=on_progress,
        )
        header_write(trace.header, directory)
    return open_trace(target)


def _column(path: Path, kind: Any, length: int) -> NDArray[Any]:
    column = open_memmap(path, mode="w+", dtype=kind, shape=(length,))
    take_room(path, path.stat().st_size)
    return column.view(np.ndarray)


def header_of(seed: int, shape: Shape) -> TraceHeader:
    return TraceHeader(
        name=f"generated, seed {seed}",
        format="generated",
        instances=tuple(
            TraceInstance(f"generated-{number}", shape.block_tokens, shape.block_bytes)
            for number in range(shape.instances)
        ),
        types=TYPES,
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    """By request: the session's request before it or -1, its system prompt, whether the session ends with
    it so far, and the blocks that no chain had before (without those of the system prompt)."""

    previous: Int32
    prompt: Int32
    is_latest: NDArray[np.bool_]
    fresh: Int32

    @classmethod
    def zeros(cls, requests: int) -> _Plan:
        return cls(
            np.zeros(requests, dtype=np.int32),
            np.zeros(requests, dtype=np.int32),
            np.zeros(requests, dtype=np.bool_),
            np.zeros(requests, dtype=np.int32),
        )


def _check(requests: int, seed: int, shape: Shape) -> None:
    limits = {
        "requests": (requests, 1, MOST_REQUESTS),
        "instances": (shape.instances, 1, MOST_INSTANCES),
        "system_prompts": (shape.system_prompts, 1, 1_000_000),
        "block_tokens": (shape.block_tokens, 1, 1_000_000),
        "block_bytes": (shape.block_bytes, 0, 2**40),
        "seed": (seed, 0, 2**62),
        "mean_interval_us": (shape.mean_interval_us, 1, 10**9),
    }
    for name, (value, least, most) in limits.items():
        if not least <= value <= most:
            raise invalid(name, f"{value} is not between {least} and {most}")
    if shape.instances * shape.system_prompts > 10_000_000:
        raise invalid("system_prompts", "more than 10,000,000 of all instances")


def _in_memory(_: str, kind: Any, length: int) -> NDArray[Any]:
    return np.zeros(length, dtype=kind)


def _tell(on_progress: Progress | None, share: float) -> None:
    if on_progress is not None:
        on_progress(share)


def _popularity(count: int, exponent: float) -> NDArray[np.float64]:
    """Cumulative shares of Zipf's law."""
    shares = 1.0 / np.arange(1, count + 1) ** exponent
    return np.asarray(np.cumsum(shares / shares.sum()), dtype=np.float64)


def _prompt_lengths(count: int, seed: int) -> Int32:
    lengths = np.random.default_rng(seed).lognormal(1.4, 0.8, count)
    return np.clip(lengths, 1, 64).astype(np.int32)
