"""The recency stack by runs: exact LRU distances of a whole trace in one pass.

Mattson et al., "Evaluation techniques for storage hierarchies" (1970), with an order-statistics tree over
*requests* (OPTIMIZER.md 3). Blocks that request r was the last to use are the end of r's chain, for later
chains share a prefix with it or nothing. They lie together in the stack, and where a later chain comes to
them it takes the first ones in order. So one query and one update of the tree do for such a *run*.
"""

from __future__ import annotations

from ..compiled import compiled
from ..trace import Int32, Int64
from .bins import find_bin

# Columns of a histogram's row, and of its last two rows: of accesses above all edges, and of totals.
# Up to FULL they count what was asked for; in the row of totals FULL are the requests that asked.
BLOCKS, TOKENS, BYTES, POSITIONS, FULL, TOUCHED, FRESH, FRESH_BYTES = range(8)
WIDTH = 8
"""A row is a cache line of int64."""


@compiled
def tree_append(tree: Int64, at: int, value: int) -> None:
    """Makes `at` (from 1, one after the other) the last element of a Fenwick tree."""
    step = 1
    while step < at & -at:
        value += tree[at - step]
        step <<= 1
    tree[at] = value


@compiled
def tree_add(tree: Int64, at: int, value: int, last: int) -> None:
    """Adds to element `at` of a tree whose last element is `last`."""
    while at <= last:
        tree[at] += value
        at += at & -at


@compiled
def tree_sum(tree: Int64, at: int) -> int:
    """Sum of the elements 1..at."""
    found = 0
    while at > 0:
        found += tree[at]
        at &= at - 1
    return int(found)


@compiled
def count_blocks(
    row: Int64, begin: int, end: int, lookup: int, tokens: int, last_tokens: int, size: int
) -> None:
    """Adds the blocks begin..end of a lookup of `lookup` blocks, `tokens` tokens each, to a row.

    With the last of them the whole lookup is there: `row[FULL]` counts it, once for all pieces.
    """
    row[BLOCKS] += end - begin
    held = (end - begin) * tokens
    if end == lookup:
        held -= tokens - last_tokens
        row[FULL] += 1
    row[TOKENS] += held
    row[BYTES] += (end - begin) * size
    row[POSITIONS] += held * begin * tokens + held * (held - 1) // 2


@compiled
def stack_pass(
    first_request: int,
    instance: Int32,
    skip_n: Int32,
    read_n: Int32,
    last_tokens: Int32,
    offset: Int64,
    path: Int32,
    at_us: Int64,
    is_root: bool,
    block_tokens: Int64,
    block_bytes: Int64,
    units: Int64,
    last: Int32,
    tree: Int64,
    state: Int64,
    edges: Int64,
    first: Int32,
    total: Int64,
    groups: Int32,
    coarse: Int32,
    parts: Int64,
    times: Int64,
    gap_edges: Int64,
    gap_first: Int32,
    gaps: Int64,
    window_begin: Int64,
    window_of: Int32,
    working: Int64,
) -> None:
    """Goes on by one chunk of R requests.

    State, changed: `last` (P) the request that used a block last, or -1; `tree` (all requests + 1) what
    blocks a request was the last to use, in units; `state[0]` units in the stack.

    Results, added to: `total` (E + 2, WIDTH) counts by bin of distance; `parts` (group, coarse bins + 2,
    WIDTH) the same for each of a request's `groups` (R, G), where `coarse` (E + 2) maps the bins;
    `gaps` (bins + 1) blocks asked for by the time since their last use; `working` distinct blocks touched
    within each window. `times` are the times of all requests so far, needed for `gaps` alone. No groups:
    G = 0; no gaps, windows: arrays of length 0.
    """
    bins = len(edges)
    has_gaps = len(gaps) > 0
    has_windows = len(working) > 0
    for request in range(len(instance)):
        now = first_request + request
        start = offset[request]
        count = offset[request + 1] - start
        which = instance[request]
        unit = units[which]
        skip = min(skip_n[request], count)
        lookup = min(read_n[request], count)
        tokens = block_tokens[which]
        size = block_bytes[which]
        rest = last_tokens[request]
        resident = state[0]
        if has_gaps:
            times[now] = at_us[request]

        row = total[bins + 1]
        if lookup > skip:
            count_blocks(row, skip, lookup, lookup, tokens, rest, size)
        row[TOUCHED] += count
        for column in range(groups.shape[1]):
            part = parts[groups[request, column], parts.shape[1] - 1]
            if lookup > skip:
                count_blocks(part, skip, lookup, lookup, tokens, rest, size)
            part[TOUCHED] += count

        begin = 0
        while begin < count:
            before = last[path[start + begin]]
            if before < 0:
                break
            end = begin + 1
            last[path[start + begin]] = now
            while end < count and last[path[start + end]] == before:
                last[path[start + end]] = now
                end += 1
            # What lies above the run in the stack when the request arrives; elements count from 1.
            above = resident - tree_sum(tree, before + 1)
            asked_begin = max(begin, skip)
            asked_end = min(end, lookup)
            if is_root:
                # The run's first block is the oldest of all that its request has left there.
                deepest = resident - tree_sum(tree, before)
                if asked_begin < asked_end:
                    # Running maximum along the chain: that of the first block asked for.
                    found = find_bin(deepest - (asked_begin - begin) * unit, edges, first)
                    count_blocks(total[found], asked_begin, asked_end, lookup, tokens, rest, size)
                    for column in range(groups.shape[1]):
                        part = parts[groups[request, column], coarse[found]]
                        count_blocks(part, asked_begin, asked_end, lookup, tokens, rest, size)
                above = deepest - (end - begin) * unit
            done = begin
            while done < end:
                found = find_bin(above + (done - begin + 1) * unit, edges, first)
                upto = end
                if found < bins:
                    upto = min(end, begin + (edges[found] - above) // unit)
                total[found, TOUCHED] += upto - done
                left = max(done, asked_begin)
                right = min(upto, asked_end)
                if left < right and not is_root:
                    count_blocks(total[found], left, right, lookup, tokens, rest, size)
                    for column in range(groups.shape[1]):
                        part = parts[groups[request, column], coarse[found]]
                        count_blocks(part, left, right, lookup, tokens, rest, size)
                for column in range(groups.shape[1]):
                    parts[groups[request, column], coarse[found], TOUCHED] += upto - done
                done = upto
            if has_gaps and asked_begin < asked_end:
                found = find_bin(at_us[request] - times[before], gap_edges, gap_first)
                gaps[found] += asked_end - asked_begin
            if has_windows and before < window_begin[window_of[request]]:
                working[window_of[request]] += end - begin
            tree_add(tree, before + 1, -(end - begin) * unit, now)
            state[0] -= (end - begin) * unit
            begin = end

        if begin < count:
            row[FRESH] += count - begin
            row[FRESH_BYTES] += (count - begin) * size
            for column in range(groups.shape[1]):
                part = parts[groups[request, column], parts.shape[1] - 1]
                part[FRESH] += count - begin
                part[FRESH_BYTES] += (count - begin) * size
            if has_windows:
                working[window_of[request]] += count - begin
            for at in range(begin, count):
                last[path[start + at]] = now
        tree_append(tree, now + 1, count * unit)
        state[0] += count * unit


@compiled
def resident_blocks(
    tree: Int64, requests: int, instance: Int32, units: Int64, edges: Int64, found: Int64
) -> None:
    """`found` (E): blocks in a stack cut at each edge (in units), after all requests, whole from the top."""
    held = tree_sum(tree, requests)
    above = 0
    blocks = 0
    edge = 0
    for request in range(requests, 0, -1):
        below = tree_sum(tree, request - 1)
        unit = units[instance[request - 1]]
        here = held - below
        while edge < len(edges) and edges[edge] < above + here:
            found[edge] = blocks + (edges[edge] - above) // unit
            edge += 1
        held = below
        above += here
        blocks += here // unit
    found[edge:] = blocks
