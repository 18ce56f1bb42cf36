"""Draws sessions and writes their chains: the compiled part of generated traces (generate.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bits import GOLDEN, mix64
from .compiled import compiled
from .trace import Int32, Int64

_MOST_CHAIN = 400
"""Blocks of a prompt from which on a session ends."""
_TRIES = 2
"""Requests that are looked at for one to go on with."""


@compiled
def _uniform(state: Int64) -> float:
    """Above 0 and below 1. Own numbers: the same whatever thread draws them."""
    state[0] += 1
    bits = np.uint64(mix64(state[0] * GOLDEN))
    return (float(bits >> np.uint64(11)) + 0.5) / 9007199254740992.0


@compiled
def _normal(state: Int64) -> float:
    """Box and Muller (1958)."""
    return float(np.sqrt(-2.0 * np.log(_uniform(state))) * np.cos(2.0 * np.pi * _uniform(state)))


@compiled
def _draw(shares: NDArray[np.float64], state: Int64) -> int:
    """A place in cumulative shares."""
    found: Any = np.searchsorted(shares, _uniform(state))
    return int(min(found, len(shares) - 1))


@compiled
def plan_sessions(
    begin: int,
    end: int,
    state: Int64,
    types: NDArray[np.float64],
    popularity: NDArray[np.float64],
    owners: NDArray[np.float64],
    lengths: Int32,
    block_tokens: int,
    mean_interval_us: int,
    is_output_kept: bool,
    age_mean: float,
    age_deviation: float,
    previous: Int32,
    prompt: Int32,
    is_latest: NDArray[np.bool_],
    fresh: Int32,
    at_us: Int64,
    offset: Int64,
    read_n: Int32,
    instance: Int32,
    kind: Int32,
    session: Int32,
    input_tokens: Int32,
    output_tokens: Int32,
) -> None:
    """Who goes on with what, and how long chains are, of the requests `begin` to below `end`.

    `state`: numbers drawn, clock in microseconds, fresh blocks, sessions. `popularity` and `owners` are
    cumulative shares of system prompts and instances, `lengths` the blocks of each prompt; the other arrays
    have a place for each request, and are filled.
    """
    for now in range(begin, end):
        before = -1
        for _ in range(_TRIES):
            age = int(np.exp(age_mean + age_deviation * _normal(state)))
            found = now - 1 - age
            if (
                found >= 0
                and is_latest[found]
                and read_n[found] < _MOST_CHAIN
                and _uniform(state) < types[kind[found], 1]
            ):
                before = found
                break
        if before < 0:
            draw = _uniform(state)
            which = 0
            while which < len(types) - 1 and draw >= types[which, 0]:
                draw -= types[which, 0]
                which += 1
            kind[now] = which
            owner = _draw(owners, state)
            instance[now] = owner
            prompt[now] = owner * len(popularity) + _draw(popularity, state)
            session[now] = state[3]
            state[3] += 1
            known = lengths[prompt[now]]
            pending = 0
        else:
            kind[now] = kind[before]
            instance[now] = instance[before]
            prompt[now] = prompt[before]
            session[now] = session[before]
            is_latest[before] = False
            known = offset[before + 1] - offset[before]
            pending = 0 if is_output_kept else output_tokens[before] // block_tokens
        is_latest[now] = True
        previous[now] = before
        drawn = np.exp(types[kind[now], 2] + types[kind[now], 3] * _normal(state))
        user = min(1 + int(drawn), _MOST_CHAIN)
        output_tokens[now] = min(1 + int(np.exp(5.5 + 0.9 * _normal(state))), 32_000)
        brought = output_tokens[now] // block_tokens if is_output_kept else 0
        read_n[now] = known + pending + user
        fresh[now] = pending + user + brought
        input_tokens[now] = read_n[now] * block_tokens + int(_uniform(state) * block_tokens)
        offset[now + 1] = offset[now] + read_n[now] + brought
        state[1] += int(-np.log(_uniform(state)) * mean_interval_us)
        at_us[now] = state[1]
        state[2] += fresh[now]


@compiled
def write_chains(
    begin: int,
    end: int,
    seed: int,
    next_id: Int64,
    firsts: Int32,
    lengths: Int32,
    previous: Int32,
    prompt: Int32,
    fresh: Int32,
    offset: Int64,
    instance: Int32,
    path: Int32,
    parent: Int32,
    depth: Int32,
    key: Int64,
    path_instance: Int32,
) -> None:
    """Writes the chains: that of the request before, or the system prompt, then new blocks."""
    for now in range(begin, end):
        at = offset[now]
        above = -1
        level = 0
        new = fresh[now]
        before = previous[now]
        if before >= 0:
            for source in range(offset[before], offset[before + 1]):
                path[at] = path[source]
                at += 1
            level = offset[before + 1] - offset[before]
            above = path[at - 1]
        else:
            first = firsts[prompt[now]]
            level = lengths[prompt[now]]
            if first < 0:
                firsts[prompt[now]] = next_id[0]
                new += level
                level = 0
            else:
                for step in range(level):
                    path[at] = first + step
                    at += 1
                above = path[at - 1]
        for _ in range(new):
            found = next_id[0]
            next_id[0] = found + 1
            path[at] = found
            at += 1
            parent[found] = above
            depth[found] = level
            key[found] = mix64((found + 1) * GOLDEN + seed)
            path_instance[found] = instance[now]
            above = found
            level += 1
