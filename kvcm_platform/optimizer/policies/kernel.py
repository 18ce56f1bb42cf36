"""The replay of a trace against one cache, compiled.

Rules, the same for every policy:

- A request is looked up first, as a whole: its hit length is the number of leading blocks that are resident.
  The first `skip_n` blocks the engine has itself: they neither break the prefix nor count.
- A turn then touches its whole chain: what is resident is used, what is away is brought, one block at a
  time, evicting before it is inserted.
- Read and write apart: a read uses only what it hit and brings nothing; a write touches the whole chain,
  brings what is missing and makes the rest recent without counting a use.
- Every touch of a chain goes deepest first, so that its root is the most recent, or root first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvcm_platform.optimizer.compiled import compiled
from kvcm_platform.optimizer.curve import Float64
from kvcm_platform.optimizer.policies.dispatch import bring, meet
from kvcm_platform.optimizer.policies.state import CLOCK, NOBODY, USED, WHERE
from kvcm_platform.optimizer.trace import Event, Int8, Int32, Int64

Flags = NDArray[np.bool_]

_TURN, _READ, _WRITE = int(Event.TURN), int(Event.READ), int(Event.WRITE)

# Positions in `totals`.
HIT_BLOCKS = 0
HIT_TOKENS = 1
HIT_BYTES = 2
FULL_HITS = 3
RESIDENT_BLOCKS = 4
"""Asked for and resident, behind a hole or not; counted when asked for."""
LOOKUPS = 5
ASKED_BLOCKS = 6
ASKED_TOKENS = 7
ASKED_BYTES = 8
NEXT_WRITE = 9
"""The first request whose delayed write has not happened."""
AT_US = 10
TOTALS = 11

# Positions in `sums`.
HIT_TOKEN_POSITIONS = 0
RESIDENT_TIME = 1
"""Capacity used, times microseconds."""
SUMS = 2


@compiled
def _hit_length(blocks: Int32, path: Int32, begin: int, skip_n: int, read_n: int) -> int:
    hit_n = skip_n
    while hit_n < read_n and blocks[path[begin + hit_n], WHERE] > 0:
        hit_n += 1
    return hit_n


@compiled
def _count(
    totals: Int64,
    sums: Float64,
    skip_n: int,
    hit_n: int,
    read_n: int,
    block_tokens: int,
    last_tokens: int,
    block_bytes: int,
) -> None:
    """A lookup of the blocks from `skip_n` to below `read_n`, of which those below `hit_n` hit."""
    asked = read_n - skip_n
    hits = hit_n - skip_n
    is_full = hit_n == read_n
    first = skip_n * block_tokens
    end = hit_n * block_tokens - (block_tokens - last_tokens if is_full else 0)
    totals[ASKED_BLOCKS] += asked
    totals[ASKED_TOKENS] += asked * block_tokens - (block_tokens - last_tokens)
    totals[ASKED_BYTES] += asked * block_bytes
    if hits:
        totals[HIT_BLOCKS] += hits
        totals[HIT_TOKENS] += end - first
        totals[HIT_BYTES] += hits * block_bytes
        totals[FULL_HITS] += is_full
        # The sum of the positions `first` to below `end`.
        sums[HIT_TOKEN_POSITIONS] += 0.5 * (end - first) * (first + end - 1)


@compiled
def _touch(
    policy: int,
    is_deep: bool,
    is_write: bool,
    brings: bool,
    blocks: Int32,
    queues: Int32,
    numbers: Int64,
    path: Int32,
    begin: int,
    used_n: int,
) -> None:
    """`used_n` blocks of the trace from `begin` on meet the cache; `brings`: what is away is inserted."""
    numbers[CLOCK] += 1
    for step in range(used_n):
        block = path[begin + (used_n - 1 - step if is_deep else step)]
        if blocks[block, WHERE] > 0:
            meet(policy, blocks, queues, numbers, block, step, is_write)
        elif brings:
            bring(policy, blocks, queues, numbers, block, step)


@compiled
def replay(
    policy: int,
    is_deep: bool,
    is_apart: bool,
    delay_us: int,
    has_partial: bool,
    counts_residents: bool,
    blocks: Int32,
    queues: Int32,
    numbers: Int64,
    at_us: Int64,
    event: Int8,
    instance: Int32,
    input_tokens: Int32,
    skip_n: Int32,
    read_n: Int32,
    offset: Int64,
    path: Int32,
    block_tokens: Int64,
    block_bytes: Int64,
    begin: int,
    end: int,
    totals: Int64,
    sums: Float64,
) -> None:
    """Replays the requests `begin` to below `end`; cache, `totals` and `sums` go on from the call before.

    `is_apart`: turns read at once and write `delay_us` later (a write due when a request comes is first).
    Every pass of the loop is one touch of a chain: a request's, or a write's that has become due.
    """
    request = begin
    has_read = False
    while request < end:
        now = at_us[request]
        late = totals[NEXT_WRITE]
        is_late = is_apart and late < request + has_read and at_us[late] + delay_us <= now
        at = at_us[late] + delay_us if is_late else now
        sums[RESIDENT_TIME] += float(numbers[USED]) * (at - totals[AT_US])
        totals[AT_US] = at
        if is_late:
            totals[NEXT_WRITE] += 1
            subject = late
            is_write = event[late] == _TURN
            touched_n = offset[late + 1] - offset[late] if is_write else 0
            brings = True
        elif has_read:
            # Its own write was due at once, or is not yet.
            has_read = False
            request += 1
            continue
        else:
            subject = request
            is_write = event[request] == _WRITE
            brings = is_write or (event[request] == _TURN and not is_apart)
            touched_n = offset[request + 1] - offset[request]
            if not is_write:
                lookup_n = int(read_n[request])
                skipped_n = min(int(skip_n[request]), lookup_n)
                hit_n = _hit_length(blocks, path, offset[request], skipped_n, lookup_n)
                if skipped_n < lookup_n:
                    owner = instance[request]
                    tokens = block_tokens[owner]
                    last_tokens = tokens
                    if has_partial:
                        rest = input_tokens[request] - (lookup_n - 1) * tokens
                        if 0 < rest < tokens:
                            last_tokens = rest
                    _count(totals, sums, skipped_n, hit_n, lookup_n, tokens, last_tokens, block_bytes[owner])
                    if counts_residents:
                        totals[RESIDENT_BLOCKS] += hit_n - skipped_n
                        for place in range(offset[request] + hit_n, offset[request] + lookup_n):
                            totals[RESIDENT_BLOCKS] += blocks[path[place], WHERE] > 0
                totals[LOOKUPS] += 1
                if not brings:
                    touched_n = hit_n
            has_read = is_apart
            request += not is_apart
        _touch(policy, is_deep, is_write, brings, blocks, queues, numbers, path, offset[subject], touched_n)


@compiled
def orphans(blocks: Int32, parent: Int32, reachable: Flags) -> int:
    """How many resident blocks are behind a hole, now. `reachable` is scratch space, P flags."""
    count = 0
    for path in range(len(parent)):
        is_resident = blocks[path, WHERE] > 0
        above = parent[path]
        reachable[path] = is_resident and (above == NOBODY or reachable[above])
        count += is_resident and not reachable[path]
    return count
