"""The radix tree of the reference simulator: leaf_aware_lru chooses by how blocks lie in nodes.

A node holds a piece of a chain. New blocks below a leaf node are appended to it; below any other node they
make a new child; where a chain leaves a node in its middle the node is split. Evicted blocks stay in their
node as ghosts. A node of ghosts without children goes when one of its blocks was evicted in the same event,
so nodes of ghosts may remain.
"""

from __future__ import annotations

from kvcm_platform.optimizer.compat.state import BELOW, NOBODY, OWNER, RESIDENT
from kvcm_platform.optimizer.compiled import compiled
from kvcm_platform.optimizer.trace import Int32

ROOT = -1

# Columns of `nodes`. Row 0 is no node: its UP is the first free row, its FIRST the rows ever used.
FIRST = 0
LAST = 1
UP = 2
CHILDREN = 3
RESIDENTS = 4
DATA_CHILDREN = 5
"""Children with a resident block."""
SEEN = 6
"""The eviction call in which its blocks came back to the eviction list."""
MARK = 7
"""A block of it was evicted in this event."""
COLUMNS = 8


@compiled
def new_node(nodes: Int32, up: int) -> int:
    """A node without blocks under `up`, not yet counted there."""
    node: int = nodes[0, UP]
    if node == 0:
        nodes[0, FIRST] += 1
        node = nodes[0, FIRST]
    else:
        nodes[0, UP] = nodes[node, UP]
    nodes[node, FIRST] = NOBODY
    nodes[node, LAST] = NOBODY
    nodes[node, UP] = up
    for column in range(CHILDREN, COLUMNS):
        nodes[node, column] = 0
    return node


@compiled
def append(blocks: Int32, nodes: Int32, node: int, block: int) -> None:
    """Puts a block, not resident yet, at the end of a node."""
    if nodes[node, LAST] == NOBODY:
        nodes[node, FIRST] = block
    else:
        blocks[nodes[node, LAST], BELOW] = block
    nodes[node, LAST] = block
    blocks[block, OWNER] = node
    blocks[block, BELOW] = NOBODY


@compiled
def set_resident(blocks: Int32, nodes: Int32, block: int) -> None:
    blocks[block, RESIDENT] = 1
    node = blocks[block, OWNER]
    nodes[node, RESIDENTS] += 1
    up = nodes[node, UP]
    if nodes[node, RESIDENTS] == 1 and up != ROOT:
        nodes[up, DATA_CHILDREN] += 1


@compiled
def set_away(blocks: Int32, nodes: Int32, block: int) -> None:
    blocks[block, RESIDENT] = 0
    node = blocks[block, OWNER]
    nodes[node, RESIDENTS] -= 1
    up = nodes[node, UP]
    if nodes[node, RESIDENTS] == 0 and up != ROOT:
        nodes[up, DATA_CHILDREN] -= 1


@compiled
def split(blocks: Int32, nodes: Int32, parent: Int32, node: int, end: int) -> int:
    """Moves the blocks of `node` down to `end` (not its last) into a new node above it, the answer.

    They are all resident: a chain that leaves a node has brought its own part of it before. So the node above
    goes on to have a child with residents.
    """
    up = nodes[node, UP]
    upper = new_node(nodes, up)
    first = nodes[node, FIRST]
    block = end
    while True:
        blocks[block, OWNER] = upper
        nodes[upper, RESIDENTS] += blocks[block, RESIDENT]
        if block == first:
            break
        block = parent[block]
    nodes[upper, FIRST] = first
    nodes[upper, LAST] = end
    nodes[node, FIRST] = blocks[end, BELOW]
    blocks[end, BELOW] = NOBODY
    nodes[node, RESIDENTS] -= nodes[upper, RESIDENTS]
    nodes[node, UP] = upper
    nodes[upper, CHILDREN] = 1
    nodes[upper, DATA_CHILDREN] = nodes[node, RESIDENTS] > 0
    return upper


@compiled
def clean(blocks: Int32, nodes: Int32, evicted: Int32, begin: int, end: int) -> None:
    """Removes nodes of ghosts without children, of those that lost one of `evicted[begin:end]`."""
    for at in range(begin, end):
        nodes[blocks[evicted[at], OWNER], MARK] = 1
    for at in range(begin, end):
        node = blocks[evicted[at], OWNER]
        # Already gone with its node: the column then holds NOBODY, which is ROOT.
        while (
            node != ROOT and nodes[node, MARK] and nodes[node, RESIDENTS] == 0 and nodes[node, CHILDREN] == 0
        ):
            node = _remove(blocks, nodes, node)
    for at in range(begin, end):
        node = blocks[evicted[at], OWNER]
        if node != NOBODY:
            nodes[node, MARK] = 0


@compiled
def _remove(blocks: Int32, nodes: Int32, node: int) -> int:
    """Forgets a node and its blocks; the node above it, or ROOT."""
    block = nodes[node, FIRST]
    while block != NOBODY:
        below = blocks[block, BELOW]
        blocks[block, OWNER] = NOBODY
        block = below
    up: int = nodes[node, UP]
    if up != ROOT:
        nodes[up, CHILDREN] -= 1
    nodes[node, MARK] = 0
    nodes[node, UP] = nodes[0, UP]
    nodes[0, UP] = node
    return up
