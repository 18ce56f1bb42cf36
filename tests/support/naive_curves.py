"""Plain models of caches of KV blocks, one request after the other: what the curves are held against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
