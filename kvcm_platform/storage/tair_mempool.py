"""`tair_mempool` (scheme `pace`): memory of many hosts, each exported by an agent (mempool_agent).

A storage's segments come and go with its nodes. An object is a range of one segment: deleting it tells
the agent first, which refuses late readers and writers from then on, and gives the range back after.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from kvcm_platform.core.pool_layout import MAX_RANGES, BadPlace, PoolRange, SegmentLayout, pool_range
from kvcm_platform.core.registry import LocationSpecInfo, PoolSegment, StorageEntry
from kvcm_platform.core.uris import DataUri, parse_uri, pool_uris
from kvcm_platform.transfer.pool_agents import (
    Agent,
    AgentDirectory,
    AgentError,
    AgentSeen,
    has_bytes,
)
from kvcm_platform.transfer.pool_discovery import PoolSpec
from kvcm_platform.transfer.pool_token import pool_token

from .backend import (
    Capabilities,
    FreedObject,
    Ledgers,
    ProbeOrder,
    ProbeResult,
    SegmentSeen,
    StorageKind,
    StoredObject,
)

CAPABILITIES = Capabilities(has_capacity=True, has_segments=True, may_lose_content=True)
THREADS = 4
_SHARE_OF_A_PROBE = 0.8
"""What calls to agents get of a probe's time, so that it can still say who did not answer."""

T = TypeVar("T")


class NotThere(OSError):
    """The registry has no segment of the node, or says that it does not answer."""


class TairMempoolBackend:
    """`DataStorageBackend` over the agents of the segments that the registry knows.

    A call means the segment of the registry: an agent that has another one by now refuses it.
    """

    def __init__(self, entry: StorageEntry, ledgers: Ledgers) -> None:
        self.entry = entry
        self._ranges = ledgers.ranges
        self._segments = {segment.node_id: segment for segment in entry.segments}
        self._directory = AgentDirectory(PoolSpec.of(entry.spec), pool_token())
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"pool-{entry.name}")

    async def open(self) -> None:
        """Agents make their memory themselves."""

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._directory.close()

    async def usage_ratio(self) -> float | None:
        survey = await self._run(self._directory.survey)
        size = sum(seen.layout.size_bytes for seen in survey.seen)
        return sum(seen.held_bytes for seen in survey.seen) / size if size else None

    async def delete(self, objects: Sequence[FreedObject]) -> list[str]:
        """A range of an unfinished write is given back with the second pass alone: until then its writer
        may come late, and is refused by what the first pass leaves at the agent.
        """
        reasons = [""] * len(objects)
        for node_id, indexed in self._by_node([item.uri for item in objects], reasons).items():
            left = dict(indexed)
            try:
                segment = self._segment(node_id)
                for part in _parts(indexed):
                    ranges = [entry for _, entry in part]
                    await self._run(self._agent(segment).release, segment.segment_id, ranges)
                    await self._give_back([(objects[index], entry) for index, entry in part])
                    for index, _ in part:
                        del left[index]
            except OSError as error:
                # A node that does not answer is not asked for the rest.
                for index in left:
                    reasons[index] = str(error)
        return reasons

    async def _give_back(self, released: Iterable[tuple[FreedObject, PoolRange]]) -> None:
        ids = [entry.range_id for item, entry in released if item.was_served or item.is_second_pass]
        if ids and self._ranges is not None:
            await self._ranges.give_back(ids)

    async def settled(self, objects: Sequence[FreedObject]) -> None:
        return

    async def exist(self, uris: Sequence[DataUri]) -> list[bool]:
        reasons = [""] * len(uris)
        found = [False] * len(uris)
        for node_id, indexed in self._by_node(uris, reasons).items():
            segment = self._segment(node_id)
            for part in _parts(indexed):
                ranges = [entry for _, entry in part]
                stats = await self._run(self._agent(segment).stat, segment.segment_id, ranges)
                for (index, _), stat in zip(part, stats, strict=True):
                    found[index] = has_bytes(stat)
        return found

    async def objects(self) -> AsyncIterator[StoredObject]:
        for segment in self._segments.values():
            agent = self._agent(segment)
            slab = 0
            while True:
                ranges, slab = await self._run(agent.held, segment.segment_id, slab)
                for held in ranges:
                    entry = PoolRange(
                        segment.node_id, held.range.offset, held.range.size, held.range.range_id
                    )
                    yield StoredObject(self._uri(entry), entry.size, held.committed_at / 1e6)
                if not slab:
                    break

    async def claim(self, owner: str) -> str:
        """The name of one who claimed a part of it already, else `owner`."""
        survey = await self._run(self._directory.survey)
        for seen in survey.seen:
            carried = await self._run(self._directory.agent(seen.address).claim, seen.segment_id, owner)
            if carried != owner:
                return str(carried)
        if not survey.seen:
            raise OSError("; ".join(survey.failures))
        return owner

    def _uri(self, entry: PoolRange) -> DataUri:
        place, specs = iter([(entry.range_id, entry.offset)]), [LocationSpecInfo("", entry.size)]
        ((uri,),) = pool_uris(self.entry, entry.node_id, place, specs, [[""]])
        return parse_uri(uri)

    def _by_node(self, uris: Sequence[DataUri], reasons: list[str]) -> dict[str, list[tuple[int, PoolRange]]]:
        """What agents can be asked about. A URI that no slot answers to gets its reason."""
        nodes: dict[str, list[tuple[int, PoolRange]]] = defaultdict(list)
        for index, uri in enumerate(uris):
            try:
                entry = pool_range(uri)
                segment = self._segments.get(entry.node_id)
                if segment is not None:
                    SegmentLayout.of_size(segment.size_bytes).place(entry.offset, entry.size)
            except (BadPlace, ValueError) as error:
                reasons[index] = str(error)
            else:
                nodes[entry.node_id].append((index, entry))
        return nodes

    def _segment(self, node_id: str) -> PoolSegment:
        segment = self._segments.get(node_id)
        if segment is None:
            raise NotThere(f"{self.entry.name} has no segment of node {node_id}")
        if not segment.is_available:
            raise NotThere(f"{self.entry.name}: node {node_id} is away")
        return segment

    def _agent(self, segment: PoolSegment) -> Agent:
        return self._directory.agent(segment.address)

    async def _run(self, call: Callable[..., T], *args: Any) -> T:
        """In a thread; each call to an agent has its own time limit."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: call(*args))


def _parts(indexed: list[tuple[int, PoolRange]]) -> Iterable[list[tuple[int, PoolRange]]]:
    return (indexed[start : start + MAX_RANGES] for start in range(0, len(indexed), MAX_RANGES))


def probe_agents(entry: StorageEntry, order: ProbeOrder) -> ProbeResult:
    """Asks every agent who it is: its heartbeat. Some that do not answer are no failure of the others."""
    seconds = min(PoolSpec.of(entry.spec).seconds, order.seconds * _SHARE_OF_A_PROBE / 2)
    directory = AgentDirectory(PoolSpec.of(entry.spec, seconds=seconds), pool_token())
    try:
        survey = directory.survey()
        failures = list(survey.failures)
        found = [seen for seen in survey.seen if _is_ours(directory, seen, order.owner, failures)]
    finally:
        directory.close()
    if not found:
        return ProbeResult(False, "; ".join(failures))
    segments = tuple(
        SegmentSeen(seen.node_id, seen.segment_id, seen.address, seen.layout.size_bytes, seen.held_bytes)
        for seen in found
    )
    return ProbeResult(
        is_ok=True,
        message="; ".join(failures),
        used_bytes=sum(segment.used_bytes for segment in segments),
        capacity_bytes=sum(segment.size_bytes for segment in segments),
        segments=segments,
    )


def _is_ours(directory: AgentDirectory, seen: AgentSeen, owner: str, failures: list[str]) -> bool:
    """Whether the agent's memory may be dealt out here. Memory that nobody claimed is, from now on.

    Two allocators over one memory would give each other's blocks away.
    """
    if not owner or seen.owner == owner:
        return True
    try:
        carried = seen.owner or directory.agent(seen.address).claim(seen.segment_id, owner)
    except AgentError as error:
        failures.append(str(error))
        return False
    if carried != owner:
        failures.append(
            f"{seen.address}: its memory belongs to {carried}; an agent started with --discard has new memory"
        )
    return carried == owner


KIND = StorageKind(CAPABILITIES, TairMempoolBackend, probe_agents, lambda entry: str(entry.spec["domain"]))
