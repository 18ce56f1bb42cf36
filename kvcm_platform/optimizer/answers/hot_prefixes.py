"""Which prefixes carry the traffic: the radix tree of a trace, its N most used nodes.

A node is a longest run of blocks that the same requests use: a path belongs to the node of its parent
where both are used equally often. Uses fall from a node to its children, so the N most used nodes always
form a tree without gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kvcm_platform.core.errors import invalid

from ..compiled import compiled_allocating
from ..curves.histograms import block_accesses
from ..trace import NO_PARENT, NO_SESSION, Int32, Int64, Trace

MOST_NODES = 2000
NO_NODE = -1


@dataclass(frozen=True, slots=True)
class PrefixNode:
    """A run of `blocks` blocks, the first with `depth` blocks before it, used by `requests` requests.

    `saved_blocks` are the blocks that all uses but the first could have had from a cache: the uses times the
    blocks, less the first bringing. `session_count` is 0 where the trace names no sessions.
    """

    id: int
    parent: int
    """Id of the node before it in this answer, or NO_NODE."""
    instance_id: str
    depth: int
    blocks: int
    requests: int
    access_share: float
    """Of all block accesses of the trace, those of this node's own blocks."""
    request_share: float
    session_count: int
    first_key: int
    """Key of its first block, as the trace has it."""
    last_use_us: int
    saved_blocks: int
    more_nodes: int
    """Children that are not in this answer."""


@dataclass(frozen=True, slots=True)
class HotPrefixes:
    """`nodes` come parents first, the most used ones first; `node_count` is the size of the whole tree."""

    nodes: tuple[PrefixNode, ...]
    node_count: int
    requests: int
    accesses: int
    distinct_blocks: int


def hot_prefixes(trace: Trace, *, nodes: int = 50) -> HotPrefixes:
    """The `nodes` most used nodes of the trace's radix tree (1..MOST_NODES), equals by first appearance.

    Time O(accesses), memory about 16 bytes for a distinct block. Raises DomainError for another number of
    nodes.
    """
    if not 1 <= nodes <= MOST_NODES:
        raise invalid("nodes", f"between 1 and {MOST_NODES}")
    if not trace.blocks:
        return HotPrefixes((), 0, trace.requests, 0, trace.distinct_blocks)
    uses = block_accesses(trace)
    head = _heads(trace.parent, uses)
    lengths = np.bincount(head[uses > 0], minlength=trace.distinct_blocks)
    heads = np.flatnonzero(lengths)
    # Ascending by path id, so that a stable sort leaves equals in order of appearance.
    chosen = heads[np.argsort(-uses[heads], kind="stable")[:nodes]]
    number = np.full(trace.distinct_blocks, NO_NODE, dtype=np.int32)
    number[chosen] = np.arange(len(chosen), dtype=np.int32)
    sessions, last_use = _walk(
        trace.offset,
        trace.path,
        trace.at_us,
        trace.session,
        np.argsort(trace.session, kind="stable"),
        number,
        len(chosen),
    )
    children = _children(trace.parent, head, heads, number, len(chosen))
    return HotPrefixes(
        nodes=tuple(
            _node(trace, int(path), uses, lengths, head, number, sessions, last_use, children)
            for path in chosen
        ),
        node_count=len(heads),
        requests=trace.requests,
        accesses=trace.blocks,
        distinct_blocks=trace.distinct_blocks,
    )


def _node(
    trace: Trace,
    path: int,
    uses: Int32,
    lengths: Int64,
    head: Int32,
    number: Int32,
    sessions: Int64,
    last_use: Int64,
    children: Int64,
) -> PrefixNode:
    id_ = int(number[path])
    before = int(trace.parent[path])
    blocks, requests = int(lengths[path]), int(uses[path])
    return PrefixNode(
        id=id_,
        parent=NO_NODE if before == NO_PARENT else int(number[head[before]]),
        instance_id=trace.header.instances[int(trace.path_instance[path])].instance_id,
        depth=int(trace.depth[path]),
        blocks=blocks,
        requests=requests,
        access_share=blocks * requests / trace.blocks,
        request_share=requests / trace.requests,
        session_count=int(sessions[id_]),
        first_key=int(trace.key[path]),
        last_use_us=int(last_use[id_]),
        saved_blocks=blocks * (requests - 1),
        more_nodes=int(children[id_]),
    )


def _children(parent: Int32, head: Int32, heads: Int64, number: Int32, count: int) -> Int64:
    """For each chosen node, its children that were not chosen."""
    left = heads[(number[heads] == NO_NODE) & (parent[heads] != NO_PARENT)]
    of = number[head[parent[left]]]
    return np.bincount(of[of != NO_NODE], minlength=count).astype(np.int64)


@compiled_allocating
def _heads(parent: Int32, uses: Int32) -> Int32:
    """For each path the first path of its node; parents come before their children."""
    head = np.empty(len(parent), dtype=np.int32)
    for block in range(len(parent)):
        before = parent[block]
        head[block] = head[before] if before >= 0 and uses[before] == uses[block] else block
    return head


@compiled_allocating
def _walk(
    offset: Int64,
    path: Int32,
    at_us: Int64,
    session: Int32,
    by_session: Int64,
    number: Int32,
    count: int,
) -> tuple[Int64, Int64]:
    """Distinct sessions and last use of each chosen node: requests session by session, so one mark a node is
    enough."""
    sessions = np.zeros(count, dtype=np.int64)
    last_use = np.zeros(count, dtype=np.int64)
    seen = np.full(count, NO_SESSION, dtype=np.int32)
    for request in by_session:
        of = session[request]
        for i in range(offset[request], offset[request + 1]):
            node = number[path[i]]
            if node < 0:
                continue
            last_use[node] = max(last_use[node], at_us[request])
            if of != NO_SESSION and seen[node] != of:
                seen[node] = of
                sessions[node] += 1
    return sessions, last_use


def prefixes_to_json(found: HotPrefixes) -> dict[str, Any]:
    """JSON-ready: nested `children`, the most used first."""
    nodes: list[dict[str, Any]] = []
    roots: list[dict[str, Any]] = []
    for node in found.nodes:
        entry: dict[str, Any] = {
            name: getattr(node, name)
            for name in PrefixNode.__dataclass_fields__
            if name not in {"parent", "first_key"}
        }
        # Beyond 2^53 a browser would round it.
        entry["first_key"] = str(node.first_key)
        entry["children"] = []
        nodes.append(entry)
        (roots if node.parent == NO_NODE else nodes[node.parent]["children"]).append(entry)
    return {
        "node_count": found.node_count,
        "requests": found.requests,
        "accesses": found.accesses,
        "distinct_blocks": found.distinct_blocks,
        "nodes": roots,
    }
