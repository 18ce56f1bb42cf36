"""Plain models of caches of KV blocks, one request after the other: what the curves are held against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from kvcm_platform.optimizer.curve import Curve
from kvcm_platform.optimizer.trace import Trace, TraceInstance

from .optimizer_traces import Turn


@dataclass(slots=True)
class Hits:
    """What one simulation counted."""

    blocks: int = 0
    tokens: int = 0
    bytes: int = 0
    positions: int = 0
    full: int = 0

    def count(self, turn: Turn, hit_n: int, instance: TraceInstance) -> None:
        """A lookup whose first `hit_n` blocks were there (or the engine's own)."""
        for at in range(turn.skip_n, min(hit_n, turn.lookup)):
            tokens = tokens_of(turn, at, instance)
            self.blocks += 1
            self.tokens += tokens
            self.bytes += instance.block_bytes
            self.positions += sum(at * instance.block_tokens + token for token in range(tokens))
        if hit_n >= turn.lookup > turn.skip_n:
            self.full += 1


def hits_at(curve: Curve, place: int) -> Hits:
    """What a curve says at its capacity number `place`."""
    return Hits(
        blocks=int(curve.hit_blocks[place]),
        tokens=int(curve.hit_tokens[place]),
        bytes=int(curve.hit_bytes[place]),
        positions=int(curve.hit_token_positions[place]),
        full=int(curve.full_hit_requests[place]),
    )


def tokens_of(turn: Turn, at: int, instance: TraceInstance) -> int:
    """Of block `at`: the last one of the prompt holds what is over."""
    rest = (turn.input_tokens or 0) - at * instance.block_tokens
    return rest if at == turn.lookup - 1 and 0 < rest < instance.block_tokens else instance.block_tokens


def hit_length(turn: Turn, is_resident: Callable[[int], bool]) -> int:
    """Blocks from the first one on that are resident; those that the engine has itself break nothing."""
    length = turn.skip_n
    while length < turn.lookup and is_resident(turn.paths[length]):
        length += 1
    return length


def naive_lru(
    trace: Trace,
    turns: Sequence[Turn],
    capacity: int,
    *,
    is_root: bool = False,
    in_bytes: bool = False,
    counts: Callable[[Turn], bool] = lambda _: True,
) -> tuple[Hits, int]:
    """Hits of the turns that count, and blocks that left. After each request the least recent blocks go
    until the rest fits."""
    hits, evicted, recency = Hits(), 0, list[int]()
    for turn in turns:
        instance = trace.header.instances[turn.instance]
        if counts(turn):
            hits.count(turn, hit_length(turn, recency.__contains__), instance)
        for path in turn.paths if is_root else reversed(turn.paths):
            if path in recency:
                recency.remove(path)
            recency.insert(0, path)
        owners = [trace.header.instances[trace.path_instance[path]] for path in recency]
        sizes = [owner.block_bytes if in_bytes else 1 for owner in owners]
        while sum(sizes) > capacity:
            sizes.pop()
            recency.pop()
            evicted += 1
    return hits, evicted


def naive_reuse_gaps(turns: Sequence[Turn]) -> list[int]:
    """Microseconds since the last use, of each block asked for that was used before."""
    gaps, used = [], dict[int, int]()
    for turn in turns:
        gaps += [turn.at_us - used[path] for path in turn.paths[turn.skip_n : turn.lookup] if path in used]
        used |= dict.fromkeys(turn.paths, turn.at_us)
    return gaps


def naive_ttl(trace: Trace, turns: Sequence[Turn], ttl_us: int) -> tuple[Hits, int, int]:
    """Hits, and block-microseconds and byte-microseconds alive, counted microsecond by microsecond."""
    hits, used = Hits(), dict[int, int]()
    alive = alive_bytes = 0
    clock = turns[0].at_us if turns else 0
    for turn in turns:
        while clock < turn.at_us:
            for path, at in used.items():
                if clock < at + ttl_us:
                    alive += 1
                    alive_bytes += trace.header.instances[trace.path_instance[path]].block_bytes
            clock += 1
        is_alive = {path for path, at in used.items() if turn.at_us - at <= ttl_us}.__contains__
        hits.count(turn, hit_length(turn, is_alive), trace.header.instances[turn.instance])
        used |= dict.fromkeys(turn.paths, turn.at_us)
    return hits, alive, alive_bytes


def most_hits(turns: Sequence[Turn], capacity: int) -> int:
    """Of all choices of what to keep after each request out of what is there: the most hit blocks."""
    best: dict[frozenset[int], int] = {frozenset(): 0}
    for turn in turns:
        after: dict[frozenset[int], int] = {}
        for resident, so_far in best.items():
            gained = so_far + max(0, hit_length(turn, resident.__contains__) - turn.skip_n)
            there = resident.union(turn.paths)
            for kept in combinations(sorted(there), min(capacity, len(there))):
                state = frozenset(kept)
                after[state] = max(after.get(state, 0), gained)
        best = after
    return max(best.values())


def naive_tiers(turns: Sequence[Turn], c1: int, c2: int) -> tuple[int, int, int]:
    """Exclusive: (blocks hit in tier 1, in tier 2, demoted). What is used goes to the top of tier 1."""
    upper, lower = list[int](), list[int]()
    hits1 = hits2 = demoted = 0
    for turn in turns:
        length = hit_length(turn, lambda path: path in upper or path in lower)
        for path in turn.paths[turn.skip_n : length]:
            hits1 += path in upper
            hits2 += path in lower
        for path in reversed(turn.paths):
            for tier in (upper, lower):
                if path in tier:
                    tier.remove(path)
            upper.insert(0, path)
        while len(upper) > c1:
            lower.insert(0, upper.pop())
            demoted += 1
        del lower[c2:]
    return hits1, hits2, demoted


def naive_inclusive_tiers(turns: Sequence[Turn], c1: int, c2: int) -> tuple[int, int]:
    """Every use refreshes both tiers: (blocks hit in tier 1, and in tier 2 alone)."""
    tiers = [list[int](), list[int]()]
    hits1 = hits2 = 0
    for turn in turns:
        length = hit_length(turn, lambda path: path in tiers[0] or path in tiers[1])
        for path in turn.paths[turn.skip_n : length]:
            hits1 += path in tiers[0]
            hits2 += path not in tiers[0]
        for tier, capacity in zip(tiers, (c1, c2), strict=True):
            for path in reversed(turn.paths):
                if path in tier:
                    tier.remove(path)
                tier.insert(0, path)
            del tier[capacity:]
    return hits1, hits2
