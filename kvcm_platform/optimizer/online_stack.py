"""One recency stack of the sampled blocks of a group, carried on call by call.

The rules are those of the exact curve (OPTIMIZER.md 1): distances at arrival, bytes above plus own; touches
deepest first. What is sampled stands for more than itself, so its own weight counts by half, as OPTIMIZER.md
5 found best; with all blocks (k = 0) the result is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .compiled import compiled_allocating

QUERY = 0
_ASKED, _HIT, _CLASS = 0x10, 0x20, 0x0F
"""As core.sampling has them; constants of the compiled code."""


@compiled_allocating
def _place(table: Any, ids: Any, block: Any) -> Any:
    """Where a block is in the table, or the free place that it would have."""
    mask = len(table) - 1
    at = np.int64(block & np.uint64(mask))
    while table[at] >= 0 and ids[table[at]] != block:
        at = (at + 1) & mask
    return at


@compiled_allocating
def _add(tree: Any, at: int, amount: float) -> None:
    at += 1
    while at < len(tree):
        tree[at] += amount
        at += at & -at


@compiled_allocating
def _up_to(tree: Any, at: int) -> float:
    """The sum over the places 0..at."""
    total = 0.0
    at += 1
    while at > 0:
        total += tree[at]
        at -= at & -at
    return total


@compiled_allocating
def carry_on(
    ids: Any,
    classes: Any,
    owners: Any,
    kinds: Any,
    call_owners: Any,
    counts: Any,
    blocks: Any,
    flags: Any,
    weights: Any,
    owner_bytes: Any,
    capacities: Any,
    hits_from: int,
    sampled: Any,
    hits: Any,
) -> Any:
    """Lets calls use the stack, and counts; gives the new stack, the least recent block first.

    `ids`, `classes`, `owners`: the stack so far (n). `kinds`, `call_owners`, `counts`: the calls, in order;
    `blocks`, `flags`: theirs, one after the other, first block first. `weights` by class, `owner_bytes` of
    one block by owner, `capacities` in bytes. Added up by owner and class, in blocks that these stand for:
    `sampled` (owners × classes) what was asked for, `hits` (× capacities) what was found. From the
    capacity `hits_from` on, a block that was really found and that the stack does not know is a hit.
    """
    n, m = len(ids), len(blocks)
    size = 16
    while size < 2 * (n + m):
        size *= 2
    # Places: one for each block known so far, then one for each use. `known` has every block once.
    table = np.full(size, -1, dtype=np.int32)
    known = np.empty(n + m, dtype=np.uint64)
    known_class = np.empty(n + m, dtype=np.uint8)
    known_owner = np.empty(n + m, dtype=np.uint16)
    place_of = np.empty(n + m, dtype=np.int32)
    block_at = np.full(n + m, -1, dtype=np.int32)
    tree = np.zeros(n + m + 1, dtype=np.float64)
    total = 0.0
    for i in range(n):
        known[i], known_class[i], known_owner[i] = ids[i], classes[i], owners[i]
        place_of[i] = block_at[i] = i
        table[_place(table, known, ids[i])] = i
        amount = weights[classes[i]] * owner_bytes[owners[i]]
        total += amount
        _add(tree, i, amount)
    used = places = n
    begin = 0
    for call in range(len(counts)):
        owner = call_owners[call]
        one = owner_bytes[owner]
        end = begin + counts[call]
        for i in range(begin, end):
            if not flags[i] & _ASKED:
                continue
            found = table[_place(table, known, blocks[i])]
            depth_class = flags[i] & _CLASS
            weight = weights[depth_class]
            sampled[owner, depth_class] += weight
            if found >= 0:
                above = total - _up_to(tree, place_of[found])
                distance = above + one * (weight + 1.0) / 2.0
                for c in range(len(capacities)):
                    if distance <= capacities[c]:
                        hits[owner, depth_class, c] += weight
            elif flags[i] & _HIT:
                for c in range(hits_from, len(capacities)):
                    hits[owner, depth_class, c] += weight
        for i in range(end - 1, begin - 1, -1):
            spot = _place(table, known, blocks[i])
            found = table[spot]
            depth_class = flags[i] & _CLASS
            if found < 0:
                found = table[spot] = used
                known[found] = blocks[i]
                used += 1
            else:
                amount = weights[known_class[found]] * owner_bytes[known_owner[found]]
                _add(tree, place_of[found], -amount)
                total -= amount
                block_at[place_of[found]] = -1
                if kinds[call] != QUERY:
                    depth_class = known_class[found]
            known_class[found], known_owner[found] = depth_class, owner
            place_of[found] = places
            block_at[places] = found
            amount = weights[depth_class] * one
            _add(tree, places, amount)
            total += amount
            places += 1
        begin = end
    kept = 0
    order = np.empty(used, dtype=np.int32)
    for at in range(places):
        if block_at[at] >= 0:
            order[kept] = block_at[at]
            kept += 1
    order = order[:kept]
    return known[order], known_class[order], known_owner[order]
