"""Plain models of eviction policies over lists, and of a replay with prefix semantics: slow and short."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kvcm_platform.optimizer.trace import Event, Trace

from .naive_curves import Hits, hit_length
from .optimizer_traces import Turn


class Naive:
    """A cache whose `order` runs from the oldest to the newest; this one is FIFO."""

    def __init__(self, capacity: int, size: Callable[[int], int], parent: Sequence[int]) -> None:
        self.capacity, self.size, self.parent = capacity, size, parent
        self.order: list[int] = []
        self.uses: dict[int, int] = {}
        self.evicted = 0

    def has(self, path: int) -> bool:
        return path in self.order

    def used(self) -> int:
        return sum(map(self.size, self.order))

    def use(self, path: int) -> None:
        self.uses[path] += 1

    def rewrite(self, path: int) -> None:
        """A write of what is there."""

    def renew(self, path: int) -> None:
        self.order.remove(path)
        self.order.append(path)

    def victim(self) -> int:
        return self.order[0]

    def bring(self, path: int) -> None:
        while self.used() + self.size(path) > self.capacity and self.used():
            gone = self.victim()
            self.order.remove(gone)
            self.evicted += 1
        if self.used() + self.size(path) <= self.capacity:
            self.insert(path)

    def insert(self, path: int) -> None:
        self.order.append(path)
        self.uses[path] = 0


class NaiveLru(Naive):
    def use(self, path: int) -> None:
        self.renew(path)

    rewrite = use


class NaiveLeafLru(NaiveLru):
    def victim(self) -> int:
        return next(
            path for path in self.order if not any(self.parent[other] == path for other in self.order)
        )


class NaiveLfu(Naive):
    def use(self, path: int) -> None:
        self.uses[path] += 1
        self.renew(path)

    def rewrite(self, path: int) -> None:
        self.renew(path)

    def victim(self) -> int:
        return min(self.order, key=lambda path: self.uses[path])


class NaiveClock(Naive):
    def victim(self) -> int:
        while self.uses[self.order[0]]:
            self.uses[self.order[0]] = 0
            self.renew(self.order[0])
        return self.order[0]


class NaiveSieve(Naive):
    hand: int | None = None

    def victim(self) -> int:
        at = 0 if self.hand is None else self.order.index(self.hand)
        while self.uses[self.order[at]]:
            self.uses[self.order[at]] = 0
            at = (at + 1) % len(self.order)
        self.hand = self.order[at + 1] if at + 1 < len(self.order) else None
        return self.order[at]


class NaiveS3Fifo(Naive):
    """`order` is only who is resident; the queues run from the oldest to the newest."""

    def __init__(self, capacity: int, size: Callable[[int], int], parent: Sequence[int]) -> None:
        super().__init__(capacity, size, parent)
        self.small: list[int] = []
        self.main: list[int] = []
        self.ghost: list[int] = []
        self.small_capacity = max(1, int(capacity * 0.1))
        self.ghost_capacity = int(capacity * 0.9)

    def held(self, queue: list[int]) -> int:
        return sum(map(self.size, queue))

    def bring(self, path: int) -> None:
        self.was_ghost = path in self.ghost
        if self.was_ghost:
            self.ghost.remove(path)
        super().bring(path)

    def insert(self, path: int) -> None:
        overflows = not self.evicted and self.held(self.small) >= self.small_capacity
        (self.main if self.was_ghost or overflows else self.small).append(path)
        super().insert(path)

    def victim(self) -> int:
        while self.small and self.held(self.main) <= self.capacity - self.small_capacity:
            while self.small:
                path = self.small.pop(0)
                if self.uses[path] < 2:
                    if self.size(path) <= self.ghost_capacity:
                        while self.held(self.ghost) + self.size(path) > self.ghost_capacity:
                            self.ghost.pop(0)
                        self.ghost.append(path)
                    return path
                self.uses[path] = 0
                self.main.append(path)
        while self.uses[self.main[0]]:
            self.uses[self.main[0]] = min(self.uses[self.main[0]], 3) - 1
            self.main.append(self.main.pop(0))
        return self.main.pop(0)


NAIVE: dict[str, type[Naive]] = {
    "lru": NaiveLru,
    "fifo": Naive,
    "lfu": NaiveLfu,
    "clock": NaiveClock,
    "sieve": NaiveSieve,
    "s3_fifo": NaiveS3Fifo,
    "leaf_lru": NaiveLeafLru,
}


@dataclass(slots=True)
class Outcome:
    hits: Hits = field(default_factory=Hits)
    residents: int = 0
    """Blocks asked for that were there."""
    evicted: int = 0
    held_us: int = 0
    """Capacity used, times microseconds."""
    orphans: int = 0
    """Residents behind a hole, after each request, added up."""


def naive_replay(
    trace: Trace,
    turns: Sequence[Turn],
    cache: Naive,
    *,
    is_root: bool = False,
    delay_us: int | None = None,
) -> Outcome:
    """`delay_us`: a turn writes so much later than it reads; None: at once."""
    outcome = Outcome()
    work: list[tuple[int, int, bool]] = []
    for number, turn in enumerate(turns):
        work.append((turn.at_us, number, False))
        if delay_us is not None and turn.event is Event.TURN:
            work.append((turn.at_us + delay_us, number, True))
    # Of one time: writes that were begun before come first, a turn's own write after its read.
    work.sort(key=lambda item: (item[0], item[1] + (0.5 if delay_us == 0 else -len(turns)) * item[2]))
    last_us, end_us = turns[0].at_us, turns[-1].at_us
    for number_in_order, (now, number, is_late) in enumerate(work):
        if all(is_a_write for _, _, is_a_write in work[number_in_order:]) and delay_us:
            break
        outcome.held_us += cache.used() * (min(now, end_us) - last_us)
        last_us = now
        turn = turns[number]
        touched, writes = list(turn.paths), is_late or turn.event is Event.WRITE
        if not writes:
            length = hit_length(turn, cache.has)
            outcome.hits.count(turn, length, trace.header.instances[turn.instance])
            outcome.residents += length - turn.skip_n
            outcome.residents += sum(map(cache.has, turn.paths[length : turn.lookup]))
            if turn.event is Event.READ or delay_us is not None:
                touched = [path for path in turn.paths[:length] if cache.has(path)]
        for path in touched if is_root else reversed(touched):
            if not cache.has(path):
                cache.bring(path)
            elif writes:
                cache.rewrite(path)
            else:
                cache.use(path)
        outcome.orphans += sum(not _is_reachable(path, cache) for path in cache.order)
    outcome.evicted = cache.evicted
    return outcome


def _is_reachable(path: int, cache: Naive) -> bool:
    above = cache.parent[path]
    return above < 0 or (cache.has(above) and _is_reachable(above, cache))
