"""Calls to the agents of a memory pool, and which agent stands for which node."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc

from kvcm_platform.core.pool_layout import (
    CHUNK_BYTES,
    MAX_SEGMENT_BYTES,
    NODE_ID,
    SLAB_BYTES,
    VERSION,
    PoolRange,
    SegmentLayout,
)
from kvcm_platform.pb import mempool_agent_pb2 as pb
from kvcm_platform.pb.mempool_agent_pb2_grpc import MemPoolAgentStub

from .pool_discovery import DiscoveryError, PoolSpec, agent_addresses

ASKED_SIDE_BY_SIDE = 32
REFRESH_SECONDS = 1.0
"""Shortest time between two rounds of questions to the agents."""

_SEGMENT_ID = re.compile(r"[0-9a-f]{16}")
_OPTIONS = (
    ("grpc.max_receive_message_length", 4 * CHUNK_BYTES),
    ("grpc.max_send_message_length", 4 * CHUNK_BYTES),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),
)


class AgentError(OSError):
    """A call failed. `status` is the gRPC status' name."""

    def __init__(self, address: str, status: str, reason: str) -> None:
        super().__init__(f"{address}: {reason or status}")
        self.status = status

    @property
    def is_passing(self) -> bool:
        """Whether asking again where the node is now may help."""
        return self.status in {"UNAVAILABLE", "FAILED_PRECONDITION"}


@dataclass(frozen=True, slots=True)
class AgentSeen:
    """What an agent says of itself."""

    address: str
    node_id: str
    segment_id: str
    layout: SegmentLayout
    path: str
    owner: str
    held_bytes: int
    started_at: int
    """Unix time in seconds."""


class Agent:
    """One agent. `seconds` bounds a call that moves no bytes. Every method raises AgentError."""

    def __init__(self, address: str, token: str, seconds: float) -> None:
        self.address = address
        self._seconds = seconds
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        self._stub: Any = MemPoolAgentStub(self._channel)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        self._channel.close()

    def describe(self) -> AgentSeen:
        answer = self._call(self._stub.Describe, pb.DescribeRequest())
        if answer.layout_version != VERSION:
            reason = f"its layout is {answer.layout_version}, {VERSION} is understood here"
            raise AgentError(self.address, "UNIMPLEMENTED", reason)
        # All of this goes into URIs and databases; what is no agent of ours must not get there.
        if not (NODE_ID.fullmatch(answer.node_id) and _SEGMENT_ID.fullmatch(answer.segment_id)):
            said = f"{answer.node_id[:64]!r}, {answer.segment_id[:64]!r}"
            raise AgentError(self.address, "INTERNAL", f"it says an impossible node or segment: {said}")
        if not SLAB_BYTES <= answer.size_bytes <= MAX_SEGMENT_BYTES:
            raise AgentError(self.address, "INTERNAL", f"it says that it has {answer.size_bytes} bytes")
        return AgentSeen(
            address=self.address,
            node_id=answer.node_id,
            segment_id=answer.segment_id,
            layout=SegmentLayout.of_size(answer.size_bytes),
            path=answer.path,
            owner=answer.owner,
            held_bytes=min(answer.figures.held_bytes, answer.size_bytes),
            started_at=answer.started_at,
        )

    def open(self, segment_id: str, ranges: Iterable[PoolRange]) -> Sequence[pb.RangeResult]:
        request = pb.OpenRequest(segment_id=segment_id, ranges=map(_message, ranges))
        return self._results(self._stub.Open, request, len(request.ranges))

    def commit(
        self, segment_id: str, ranges: Iterable[PoolRange], checksums: Iterable[int]
    ) -> Sequence[pb.RangeResult]:
        request = pb.CommitRequest(
            segment_id=segment_id, ranges=map(_message, ranges), checksums=list(checksums)
        )
        return self._results(self._stub.Commit, request, len(request.ranges))

    def release(self, segment_id: str, ranges: Iterable[PoolRange]) -> None:
        self._call(self._stub.Release, pb.ReleaseRequest(segment_id=segment_id, ranges=map(_message, ranges)))

    def stat(
        self, segment_id: str, ranges: Iterable[PoolRange], *, verify: bool = False
    ) -> Sequence[pb.RangeStat]:
        request = pb.StatRequest(segment_id=segment_id, ranges=map(_message, ranges), verify=verify)
        stats: Sequence[pb.RangeStat] = self._call(self._stub.Stat, request).stats
        self._require(len(stats), len(request.ranges))
        return stats

    def held(self, segment_id: str, first_slab: int) -> tuple[Sequence[pb.HeldRange], int]:
        """Committed ranges from this slab on, and where to go on; 0 at the end."""
        answer = self._call(self._stub.List, pb.ListRequest(segment_id=segment_id, first_slab=first_slab))
        return answer.ranges, answer.next_slab

    def claim(self, segment_id: str, owner: str) -> str:
        return str(self._call(self._stub.Claim, pb.ClaimRequest(segment_id=segment_id, owner=owner)).owner)

    def write(
        self,
        segment_id: str,
        blocks: Sequence[tuple[PoolRange, bytes | memoryview, int]],
        seconds: float,
    ) -> Sequence[pb.RangeResult]:
        """Sends blocks (range, bytes, checksum); one result a block."""
        return self._results(self._stub.Write, _chunks(segment_id, blocks), len(blocks), seconds)

    def read(self, segment_id: str, ranges: Iterable[PoolRange], seconds: float) -> Iterator[pb.ReadChunk]:
        request = pb.ReadRequest(segment_id=segment_id, ranges=map(_message, ranges))
        try:
            yield from self._stub.Read(request, timeout=seconds, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._error(error, seconds) from error

    def _results(
        self, method: Any, request: Any, expected: int, seconds: float | None = None
    ) -> Sequence[pb.RangeResult]:
        results: Sequence[pb.RangeResult] = self._call(method, request, seconds).results
        self._require(len(results), expected)
        return results

    def _require(self, given: int, expected: int) -> None:
        if given != expected:
            raise AgentError(self.address, "INTERNAL", f"it answered for {given} ranges of {expected}")

    def _call(self, method: Any, request: Any, seconds: float | None = None) -> Any:
        try:
            return method(request, timeout=seconds or self._seconds, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._error(error, seconds or self._seconds) from error

    def _error(self, error: Any, seconds: float) -> AgentError:
        status = error.code().name
        reason = f"no answer within {seconds:g} s" if status == "DEADLINE_EXCEEDED" else error.details()
        return AgentError(self.address, status, reason or "")


def has_bytes(stat: pb.RangeStat) -> bool:
    """Whether the range's bytes are there."""
    return bool(stat.state == pb.RANGE_COMMITTED)


def _message(entry: PoolRange) -> pb.Range:
    return pb.Range(offset=entry.offset, size=entry.size, range_id=entry.range_id)


def _chunks(
    segment_id: str, blocks: Sequence[tuple[PoolRange, bytes | memoryview, int]]
) -> Iterator[pb.WriteChunk]:
    for entry, data, checksum in blocks:
        view = memoryview(data).cast("B")
        for start in range(0, entry.size, CHUNK_BYTES):
            part = bytes(view[start : start + CHUNK_BYTES])
            if start:
                yield pb.WriteChunk(data=part)
            else:
                yield pb.WriteChunk(
                    segment_id=segment_id, range=_message(entry), checksum=checksum, data=part
                )


@dataclass(frozen=True, slots=True)
class Survey:
    """What a round of questions found. `failures`: a sentence for each agent that did not answer."""

    seen: tuple[AgentSeen, ...]
    failures: tuple[str, ...] = ()


class NodeUnknown(OSError):
    """No agent that answers stands for the node."""


class AgentDirectory:
    """The agents of one pool by their nodes. Safe to share among threads."""

    def __init__(self, spec: PoolSpec, token: str = "") -> None:
        self._spec = spec
        self._token = token
        self._agents: dict[str, Agent] = {}
        self._nodes: dict[str, AgentSeen] = {}
        self._failures: tuple[str, ...] = ()
        self._asked_at: float | None = None
        self._lock = threading.Lock()
        self._asking = threading.Lock()

    def close(self) -> None:
        with self._lock:
            agents = list(self._agents.values())
            self._agents.clear()
            self._nodes.clear()
        for agent in agents:
            agent.close()

    def agent(self, address: str) -> Agent:
        """The agent at this address; made when first asked for."""
        with self._lock:
            agent = self._agents.get(address)
            if agent is None:
                agent = self._agents[address] = Agent(address, self._token, self._spec.seconds)
            return agent

    def node(self, node_id: str, *, not_like: AgentSeen | None = None) -> AgentSeen:
        """Who stands for the node. Raises NodeUnknown.

        `not_like`: what was known did not answer, or has other memory. Its agent is asked again, and the
        others where it is away; those not more often than every REFRESH_SECONDS.
        """
        known = self._nodes.get(node_id)
        if known is not None and known != not_like:
            return known
        with self._asking:
            known = self._nodes.get(node_id)
            if known is not None and known != not_like:
                return known
            if known is None or not self._is_there(known):
                now = time.monotonic()
                if self._asked_at is None or now >= self._asked_at + REFRESH_SECONDS:
                    self._asked_at = now
                    self.survey()
        known = self._nodes.get(node_id)
        if known is None:
            raise NodeUnknown("; ".join((f"no agent of node {node_id} is known", *self._failures)))
        return known

    def _is_there(self, known: AgentSeen) -> bool:
        """Whether the agent answers where it was; what it says now is noted."""
        answer = self._asked(known.address)
        if isinstance(answer, str) or answer.node_id != known.node_id:
            return False
        with self._lock:
            self._nodes[known.node_id] = answer
        return True

    def survey(self) -> Survey:
        """Asks every agent at once; each has the time of one call. Nodes that do not answer stay known."""
        try:
            addresses = agent_addresses(self._spec)
        except DiscoveryError as error:
            self._failures = (str(error),)
            return Survey((), self._failures)
        with ThreadPoolExecutor(min(ASKED_SIDE_BY_SIDE, len(addresses)), "pool survey") as pool:
            answers = list(pool.map(self._asked, addresses))
        failures = [answer for answer in answers if isinstance(answer, str)]
        nodes: dict[str, AgentSeen] = {}
        for seen in sorted(
            (answer for answer in answers if isinstance(answer, AgentSeen)),
            key=lambda seen: (seen.started_at, seen.address),
        ):
            first = nodes.setdefault(seen.node_id, seen)
            if first is not seen and first.segment_id != seen.segment_id:
                failures.append(f"{seen.address}: node {seen.node_id} is at {first.address} already")
        self._failures = tuple(failures)
        with self._lock:
            self._nodes.update(nodes)
        return Survey(tuple(nodes.values()), self._failures)

    def _asked(self, address: str) -> AgentSeen | str:
        try:
            return self.agent(address).describe()
        except AgentError as error:
            return str(error)
