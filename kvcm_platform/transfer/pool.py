"""Moving block bytes to and from a memory pool (scheme pace).

On the host of a segment (its file is there, and says that it is this segment) bytes are copied to and
from the mapped memory: a read makes no call at all, a write asks the agent before and after. From
elsewhere they go through the agent. Either way a block that is returned has the checksum that it was
committed with, bound to its range id: no reuse of a slot and no torn write can pass for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from kvcm_platform.core.pool_layout import PoolRange, pool_range
from kvcm_platform.core.uris import parse_uri
from kvcm_platform.pb import mempool_agent_pb2 as pb

from .block import TransferError, verified
from .pool_agents import AgentDirectory, AgentError, AgentSeen, NodeUnknown
from .pool_discovery import PoolSpec
from .pool_memory import NotReadable, payload_checksum
from .pool_node import Local, LocalSegments, Remote

Item = TypeVar("Item")
Result = TypeVar("Result")

_PART_BLOCKS = 256
_PART_BYTES = 64 << 20
"""A part of a batch that one thread moves with one call, or between two."""


@dataclass(frozen=True, slots=True)
class Wanted(Generic[Item]):
    """One block of a batch. `index` is its place in it."""

    index: int
    uri: str
    range: PoolRange
    item: Item


class PoolTransfer:
    """`BlockTransfer` over one tair_mempool storage. Safe to share among threads.

    `call_seconds`: time limit of a call that moves bytes; others have the spec's timeout.
    `threads`: parts of one batch moved at the same time. `is_remote`: never use shared memory.
    """

    def __init__(
        self,
        spec: PoolSpec,
        *,
        token: str = "",
        threads: int = 4,
        call_seconds: float = 10.0,
        is_remote: bool = False,
    ) -> None:
        self._directory = AgentDirectory(spec, token)
        self._segments = LocalSegments()
        self._call_seconds = call_seconds
        self._is_remote = is_remote
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="pool transfer")

    def close(self) -> None:
        """Ends the threads and connections; calls that are under way are finished first."""
        self._pool.shutdown()
        self._directory.close()
        self._segments.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write_batch(self, blocks: Sequence[tuple[str, bytes | memoryview]]) -> list[None | TransferError]:
        """As BlockTransfer. A block that was written before with the same bytes is written."""
        for uri, data in blocks:
            if (size := _size_of(uri)) is not None and memoryview(data).nbytes != size:
                raise ValueError(f"{uri}: {memoryview(data).nbytes} bytes for a range of {size}")
        return self._each_part([uri for uri, _ in blocks], [data for _, data in blocks], self._write_part)

    def read_batch(
        self, uris: Sequence[str], checksums: Sequence[int] | None = None
    ) -> list[bytes | TransferError]:
        """As BlockTransfer. What a block was committed with is compared with or without `checksums`."""
        found = self._each_part(uris, [None] * len(uris), self._read_part)
        return verified(uris, found, checksums)

    @contextmanager
    def reading(self, uri: str) -> Iterator[memoryview]:
        """The block where it lies, without a copy; the segment must be on this host.

        What was made of the bytes counts only when the block ends without an error: then they were
        what was written, from its beginning to its end. Raises TransferError.
        """
        entry = _parsed(uri)
        node = self._local(uri, entry)
        try:
            place = node.memory.layout.place(entry.offset, entry.size)
            slot = node.memory.readable(place, entry.range_id)
            with node.memory.payload(place).toreadonly() as view:
                yield view
                node.memory.confirm(place, entry.range_id, slot, view)
        except (NotReadable, ValueError) as error:
            raise TransferError(uri, str(error)) from error

    @contextmanager
    def writing(self, uri: str) -> Iterator[memoryview]:
        """The block's slot, to be filled where it is; the segment must be on this host.

        It is committed at the end, unless that is an exception. Raises TransferError.
        """
        entry = _parsed(uri)
        node = self._local(uri, entry)
        try:
            place = node.memory.layout.place(entry.offset, entry.size)
            _raise_unless_done(uri, node.open([entry])[0])
            with node.writable().payload(place) as view:
                yield view
                checksum = payload_checksum(view, entry.range_id)
            _raise_unless_done(uri, node.commit([entry], [checksum])[0])
        except (AgentError, ValueError) as error:
            raise TransferError(uri, str(error)) from error

    def _local(self, uri: str, entry: PoolRange) -> Local:
        try:
            node = self._node(self._directory.node(entry.node_id))
            if isinstance(node, Local) and not node.is_current():
                node = self._node(self._directory.node(entry.node_id, not_like=node.seen))
        except NodeUnknown as error:
            raise TransferError(uri, str(error)) from error
        if not isinstance(node, Local):
            raise TransferError(uri, f"the memory of node {entry.node_id} is not on this host")
        return node

    def _node(self, seen: AgentSeen) -> Local | Remote:
        agent = self._directory.agent(seen.address)
        memory = None if self._is_remote else self._segments.memory(seen)
        return Remote(seen, agent, self._call_seconds) if memory is None else Local(seen, agent, memory)

    def _write_part(
        self, node: Local | Remote, part: list[Wanted[bytes | memoryview]]
    ) -> list[None | TransferError]:
        if isinstance(node, Local) and not node.may_write():
            node = Remote(node.seen, node.agent, self._call_seconds)
        results = node.write([(wanted.range, wanted.item) for wanted in part])
        return [_done(wanted.uri, result) for wanted, result in zip(part, results, strict=True)]

    def _read_part(self, node: Local | Remote, part: list[Wanted[None]]) -> list[bytes | TransferError]:
        found = node.read([wanted.range for wanted in part])
        return [
            data if isinstance(data, bytes) else TransferError(wanted.uri, data)
            for wanted, data in zip(part, found, strict=True)
        ]

    def _each_part(
        self,
        uris: Sequence[str],
        items: Sequence[Item],
        work: Callable[[Local | Remote, list[Wanted[Item]]], list[Result | TransferError]],
    ) -> list[Result | TransferError]:
        """What `work` makes of the blocks of each node, a part at a time, in the order of `uris`."""
        results: dict[int, Result | TransferError] = {}
        by_node: dict[str, list[Wanted[Item]]] = defaultdict(list)
        for index, (uri, item) in enumerate(zip(uris, items, strict=True)):
            try:
                entry = _parsed(uri)
            except TransferError as error:
                results[index] = error
            else:
                by_node[entry.node_id].append(Wanted(index, uri, entry, item))
        parts = [part for wanted in by_node.values() for part in _parts(wanted)]

        def run(part: list[Wanted[Item]]) -> list[Result | TransferError]:
            return self._with_node(part, work)

        each = map if len(parts) == 1 else self._pool.map
        for part, made in zip(parts, each(run, parts), strict=True):
            results.update({wanted.index: result for wanted, result in zip(part, made, strict=True)})
        return [results[index] for index in range(len(uris))]

    def _with_node(
        self,
        part: list[Wanted[Item]],
        work: Callable[[Local | Remote, list[Wanted[Item]]], list[Result | TransferError]],
    ) -> list[Result | TransferError]:
        """Does the work with who stands for the node now; once more if that turns out to be outdated."""
        node_id = part[0].range.node_id
        outdated: AgentSeen | None = None
        try:
            while True:
                node = self._node(self._directory.node(node_id, not_like=outdated))
                is_last = outdated is not None
                outdated = node.seen
                try:
                    made = work(node, part)
                except AgentError as error:
                    if is_last or not error.is_passing:
                        raise
                    continue
                has_failed = any(isinstance(result, TransferError) for result in made)
                if is_last or not has_failed or node.is_current():
                    return made
        except (AgentError, NodeUnknown) as error:
            return [TransferError(wanted.uri, str(error)) for wanted in part]


def _parsed(uri: str) -> PoolRange:
    try:
        return pool_range(parse_uri(uri))
    except ValueError as error:
        raise TransferError(uri, str(error)) from error


def _size_of(uri: str) -> int | None:
    try:
        return _parsed(uri).size
    except TransferError:
        return None


def _parts(wanted: list[Wanted[Item]]) -> Iterator[list[Wanted[Item]]]:
    part: list[Wanted[Item]] = []
    size = 0
    for one in wanted:
        if part and (len(part) >= _PART_BLOCKS or size + one.range.size > _PART_BYTES):
            yield part
            part, size = [], 0
        part.append(one)
        size += one.range.size
    if part:
        yield part


def _done(uri: str, result: pb.RangeResult) -> TransferError | None:
    return None if result.outcome == pb.OUTCOME_OK else TransferError(uri, result.reason)


def _raise_unless_done(uri: str, result: pb.RangeResult) -> None:
    error = _done(uri, result)
    if error is not None:
        raise error
