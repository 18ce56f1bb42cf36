"""A trace replayed as the reference simulator does it, in pieces of whole requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kvcm_platform.core.errors import invalid
from kvcm_platform.optimizer.compat import kernel, radix_nodes, random_lru, state
from kvcm_platform.optimizer.compat.settings import ReferencePolicy, ReferenceSettings
from kvcm_platform.optimizer.curve import Progress
from kvcm_platform.optimizer.request_arrays import read_only
from kvcm_platform.optimizer.trace import Event, Int32, Int64, Trace, blocks_by_instance

CHUNK_BLOCKS = 100_000
"""A request to stop is seen after so many; leaf_aware_lru may need long for them, as its lists are walked."""
_NUMBERS = {
    ReferencePolicy.LRU: state.LRU,
    ReferencePolicy.RANDOM_LRU: state.RANDOM_LRU,
    ReferencePolicy.LEAF_AWARE_LRU: state.LEAF_AWARE_LRU,
}


@dataclass(frozen=True, slots=True)
class Piece:
    """Requests `begin` to below `end`, of a replay going on.

    `hits`: hit length of each (0 of a write), over the whole chain. `sizes`: what each instance of the trace
    holds after it; no columns where that was not asked for.
    """

    begin: int
    end: int
    hits: Int32
    sizes: Int32


@dataclass(frozen=True, slots=True)
class InstanceOutcome:
    """At the end of a replay. `written` counts a block each time that it is written."""

    instance_id: str
    written: int
    resident: int


class ReferenceReplay:
    """One replay: iterate over `pieces` once, then ask for `outcomes` and `evicted`.

    Memory: 20 to 32 bytes a distinct block, with leaf_aware_lru 72. Raises INVALID_ARGUMENT where the
    settings miss an instance of the trace.
    """

    def __init__(self, trace: Trace, settings: ReferenceSettings, *, counts_sizes: bool = False) -> None:
        self._trace = trace
        self._settings = settings
        self._counts_sizes = counts_sizes
        self._counters = np.zeros(kernel.COUNTERS, np.int64)
        self._place()
        policies = {instance.policy for instance in settings.instances}
        blocks = trace.distinct_blocks
        has_nodes = ReferencePolicy.LEAF_AWARE_LRU in policies
        has_times = has_nodes or ReferencePolicy.RANDOM_LRU in policies
        draws = min(blocks, int(self._instances[:, state.SAMPLE_SIZE].max(initial=0)))
        columns = state.NODE_COLUMNS if has_nodes else state.PLAIN_COLUMNS
        self._blocks = np.zeros((blocks, columns), np.int32)
        if has_nodes:
            self._blocks[:, state.OWNER] = state.NOBODY
        self._last = np.zeros(blocks if has_times else 1, np.int64)
        self._nodes = np.zeros((blocks + 1 if has_nodes else 1, radix_nodes.COLUMNS), np.int32)
        self._scratch = np.zeros(2 * blocks + draws if has_times else 1, np.int32)

    def _place(self) -> None:
        """Fills the tables of instances and groups."""
        trace, settings = self._trace, self._settings
        numbers = {one.instance_id: at for at, one in enumerate(trace.header.instances)}
        configured = {one.instance_id: one for one in settings.instances}
        if missing := sorted(set(numbers) - set(configured)):
            raise invalid("instance_groups", f"the trace has an instance {missing[0]!r} that no group lists")
        table = np.zeros((len(numbers), state.INSTANCE_COLUMNS), np.int64)
        table[:, (state.NEWEST, state.OLDEST)] = state.NOBODY
        table[:, state.RANDOM] = random_lru.FIRST_STATE
        for instance_id, at in numbers.items():
            instance = configured[instance_id]
            rate = instance.sample_rate if instance.sample_rate > 0 else 0.1
            table[at, state.POLICY] = _NUMBERS[instance.policy]
            table[at, state.SAMPLE_SIZE] = min(2**31, int(settings.batch / rate))
        blocks = blocks_by_instance(trace)
        table[:, state.BASE] = np.cumsum(blocks) - blocks
        groups = np.zeros((max(1, len(settings.groups)), kernel.GROUP_COLUMNS), np.int64)
        members: list[int] = []
        for at, group in enumerate(settings.groups):
            here = [numbers[one.instance_id] for one in group.instances if one.instance_id in numbers]
            groups[at] = (group.quota, 0, len(members), len(members) + len(here))
            table[here, state.GROUP] = at
            members += here
        self._instances, self._groups, self._members = table, groups, np.array(members, np.int64)

    def pieces(self, on_progress: Progress | None = None) -> Iterator[Piece]:
        trace = self._trace
        columns = (
            read_only(trace.at_us, np.int64),
            read_only(trace.event, np.int8),
            read_only(trace.instance, np.int32),
            read_only(trace.offset, np.int64),
            read_only(trace.path, np.int32),
        )
        parent = read_only(trace.parent, np.int32)
        width = len(trace.header.instances) if self._counts_sizes else 0
        begin = 0
        while begin < trace.requests:
            least = int(trace.offset[begin]) + CHUNK_BLOCKS
            end = int(np.searchsorted(trace.offset, least, side="left"))
            end = min(trace.requests, max(begin + 1, end), begin + CHUNK_BLOCKS)
            piece = Piece(
                begin, end, np.zeros(end - begin, np.int32), np.zeros((end - begin, width), np.int32)
            )
            kernel.replay(
                int(self._settings.mode),
                self._settings.batch,
                self._blocks,
                self._last,
                self._instances,
                self._nodes,
                parent,
                self._scratch,
                self._groups,
                self._members,
                self._counters,
                *columns,
                begin,
                end,
                piece.hits,
                piece.sizes,
            )
            yield piece
            begin = end
            if on_progress is not None:
                on_progress(end / trace.requests)

    @property
    def evicted(self) -> int:
        return int(self._counters[kernel.EVICTED])

    @property
    def outcomes(self) -> tuple[InstanceOutcome, ...]:
        """By instance of the trace."""
        return tuple(
            InstanceOutcome(one.instance_id, int(row[state.WRITTEN]), int(row[state.SIZE]))
            for one, row in zip(self._trace.header.instances, self._instances, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Lookups:
    """The lookups of a piece, without its writes, as the reference counts them.

    Internal blocks are those that the engine had itself: the mask of a read (its first `skip_n`). They count
    as read, and as hit where they are in the cache too; they do break the prefix. Turns have no internal
    blocks: the reference ignores their mask.
    """

    requests: Int64
    """Their positions in the trace."""
    internal_read: Int64
    external_read: Int64
    internal_hit: Int64
    external_hit: Int64


def lookups_of(trace: Trace, piece: Piece) -> Lookups:
    event = np.asarray(trace.event[piece.begin : piece.end])
    chosen = np.flatnonzero(event != Event.WRITE)
    requests = chosen + piece.begin
    is_read = event[chosen] == Event.READ
    offset = np.asarray(trace.offset[piece.begin : piece.end + 1], np.int64)
    length = np.diff(offset)[chosen]
    hit_n = piece.hits[chosen].astype(np.int64)
    skip_n = np.where(is_read, np.asarray(trace.skip_n[piece.begin : piece.end], np.int64)[chosen], 0)
    read_n = np.where(is_read, length, np.asarray(trace.read_n[piece.begin : piece.end], np.int64)[chosen])
    return Lookups(
        requests=requests,
        internal_read=skip_n,
        external_read=read_n - skip_n,
        internal_hit=np.minimum(hit_n, skip_n),
        external_hit=np.maximum(hit_n - skip_n, 0),
    )
